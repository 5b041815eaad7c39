"""Every tolerance the tests use, and why it is what it is."""

#: A few dozen roundings of numbers of order one (2.2e-16 each).
ROUNDING = 1e-13

#: Long sums and exponentials: exp multiplies an error by its argument, here at most a few tens.
EXPONENTIAL = 1e-11

#: Given to solvers as `tol` where their answers are compared: far below SOLVED, above rounding.
SOLVE_TIGHTLY = 1e-13

#: The same for two potentials, whose last digits cost many sweeps where clusters are far apart.
SOLVE_POTENTIALS = 1e-10

#: Rounding of scores of size 30 allows residuals of 1e-14; a solver asked for this can reach it.
REACHABLE = 1e-12

#: Plans that both solvers found tightly agree to the residual times a modest condition number.
SOLVED = 1e-9

#: As SOLVED, for layers with drawn matrices, whose conditioning is not ours to choose.
SOLVED_LAYER = 1e-7

#: The default `tol` of the solvers; what a converged marginal may miss in L1.
DEFAULT_TOL = 1e-9

#: Scores of 1e4 carry an absolute rounding error of 1e4 * 1.1e-16 each, and a few are added.
LARGE_SCORES = 1e-9

#: Products for directions are in single precision, 6e-8 a rounding, with some entries left out.
SIX_SINGLE_DIGITS = 1e-6

#: The grid at step sqrt(eps)/4 and half width 8 sees the Gaussian to far better than this.
GAUSSIAN_MAP = 1e-7

#: A displacement from exact differences: only exp and the sum round.
DISPLACEMENT = 1e-12

#: Above 16 dimensions distances may come from one matrix product, which loses up to 1e4 ulps.
PRODUCT_DISTANCE = 1e-11

#: A square root of a squared distance that is rounded at 1e-16 of the coordinates' size.
DISTANCE = 1e-12

#: Masses are rounded at 1e-16, and W2 is the root of mass times squared length (here up to 100).
ROUNDED_MASS = 1e-7

#: Texts show six digits at most, so they err by half a unit of the sixth.
SIX_DIGITS = 5e-6

#: 3 - 2 sqrt(2) = 0.172 per sweep is the limit (1/3 without momentum); a mean over six shows the start.
CONTRACTION = 0.172 + 0.05

#: log(1e9)/log(1/0.172) is 12; the first sweeps bring a into the linear regime.
SWEEPS = 16

#: rtol 1e-10 per step, a few tens of steps, growth by a small factor.
FLOW = 1e-8

#: A first-order method has error ratio 2 at double depth, up to terms of order 1/depth.
HALVING = 0.1

#: The dense and the fast bridge both stop at 1e-9 of the marginal; maps and scalings err a little more.
FAST_BRIDGE = 1e-8

#: A number quoted to five digits errs by half a unit of the fifth, at worst 5e-5 of it.
FIVE_DIGITS = 5e-5

#: The same for seven digits.
SEVEN_DIGITS = 5e-7

#: The same for nine.
NINE_DIGITS = 5e-9

#: Central differences at step 1e-4: h^2/6 = 2e-9 times a third derivative, of order ten.
FIRST_DIFFERENCE = 1e-7

#: Second differences at step 1e-3: h^2/12 = 1e-7 times a fourth derivative, of order ten.
SECOND_DIFFERENCE = 2e-6

#: Differences of order eight at step 1e-2, taken twice, keep 1e-16/1e-4 of values up to 100.
EIGHTH_ORDER = 1e-9

#: Sums over uniform grids err by exp(-2 (pi sigma/h)^2) and the tails, both far below rounding.
GRID_SUM = 1e-12

#: At eps = 0.3 the sinc basis sees the mixture's root, which is analytic within pi/4, to this.
GRID_PAIR = 1e-10

#: A moment of independent samples misses by more than this with probability 6e-7.
STANDARD_ERRORS = 5.0

#: Products, roots and inverses of matrices with condition numbers up to about 100.
CONDITIONED = 1e-11

#: The square root of a trace that is rounded at 1e-14.
ROOT_OF_TRACE = 1e-7

#: The series' first omitted term is 231 u^13/13312, 1e-11 of the sum at u = 0.1.
SERIES = 1e-10

#: exp(-18) of the pairs lie beyond 6 sqrt(eps), where the integrand is some 6^4 times larger.
BAND = 1e-4

#: Differences of order eight at step 2 sqrt(0.05) of logarithms that are nearly parabolas.
MOVING_GRID = 1e-9

#: Quadratures asked for a relative 1e-12, of integrands whose exponents (up to 700) round at 1e-16.
QUADRATURE = 1e-11

#: Inner products and lengths after a flow at rtol 1e-10 that spreads errors by at most a hundred.
LONG_FLOW = 1e-7

#: A phase diagram errs by 0.01 delta per step: five steps' worth, in units of delta.
STEPS_OF_DELTA = 0.05

#: The Taylor polynomial's first omitted term at 1/4: (1/4)^10/10!; squarings double it.
TAYLOR = 3e-13

#: The root of a variance that is a difference of numbers rounded at 1e-16.
ROOT_OF_VARIANCE = 1e-8

#: Unit roundoff of single precision.
SINGLE = 6e-8

#: A method of order p has error ratio 2^p at half the step; its logarithm at steps of 0.1 misses p by this.
ORDER = 0.5

#: At rtol 1e-8 with attention that switches in a jump, which costs a hundred short steps, twice.
LATE = 1e-5

#: HiGHS meets its constraints to 1e-7, and stretches here are of order one.
LINEAR_PROGRAMME = 1e-6

#: A number quoted to eight digits errs by half a unit of the eighth, here 5e-9 of 0.43839941.
EIGHT_DIGITS = 1.2e-8

#: Blow-up is extrapolated from growth by 1e10; the flow before it is integrated at rtol 1e-10.
BLOW_UP = 1e-8

#: Twenty Gauss-Hermite nodes a coordinate for kernels with exponents of order one.
HERMITE = 1e-7

#: The mean of a smooth function at +h and -h misses by h^2 = 1e-8 times its curvature, up to 100.
NEAR_SINGULAR = 1e-6

#: Moments up to the ninth of Gauss-Hermite nodes that are good to a few ulps, relative to their size.
MOMENT = 1e-12

#: A blow-up time at rtol 1e-13: the flow leaves out 1e-10 of it, and a wrong remainder shows.
EXTRAPOLATED = 1e-12

#: A trained model in float32, up to 30 layers: the largest error found is 2.5e-6 of the largest entry.
TRAINED_SINGLE = 1e-5

#: The same model in float64, against numbers stored in float32 (6e-8).
TRAINED_DOUBLE = 1e-7

#: As TRAINED_DOUBLE, where the reference turned by angles it had rounded to float32.
TRAINED_ANGLES = 1e-6

#: The norm of a few dozen numbers, each a sum of products that cancel by a factor up to 100.
ROUNDING_OF_NORM = 1e-13

#: Products and norms in single precision, whose scores (up to 10) lose a digit in the exponential.
JACOBIAN_SINGLE = 1e-5

#: Backward differences at rtol 1e-10 a step, a thousand steps, errors of one sign.
STIFF = 2e-7

#: A second-order error quadruples when the temperature doubles, up to the fourth order at 0.04.
QUADRUPLING = 0.1

#: Marginals of a bridge err by 1e-13, and paths differ by a few 1e-6 of U at eps = var/20.
PATHS = 1e-8
#: A map through a gap between components, integrated at rtol 1e-12 where its slope varies by e^20.
DEEP_GAP = 1e-10

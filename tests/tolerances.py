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

#: 3 - 2 sqrt(2) = 0.172 per sweep is the limit, times (k + 1)/k in early sweep k; 1/3 without momentum.
CONTRACTION = 0.172 + 0.05

#: log(1e9)/log(1/0.172) is 12; the first sweeps bring a into the linear regime.
SWEEPS = 16

#: rtol 1e-10 per step, a few tens of steps, growth by a small factor.
FLOW = 1e-8

#: A first-order method has error ratio 2 at double depth, up to terms of order 1/depth.
HALVING = 0.1

#: The dense and the fast bridge both stop at 1e-9 of the marginal; maps and scalings err a little more.
FAST_BRIDGE = 1e-8

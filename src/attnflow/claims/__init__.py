"""A claim is computed, can fail, and is shown with its verdict.

* :mod:`~attnflow.claims.rows`: a row of evidence, as notebooks show it and the ledger reads it.
* :mod:`~attnflow.claims.comparing`: ``check`` and ``control`` make one.
* :mod:`~attnflow.claims.register`: the list of claims, and the ledger.
"""

from attnflow.claims.comparing import RELATIONS as RELATIONS
from attnflow.claims.comparing import check as check
from attnflow.claims.comparing import control as control
from attnflow.claims.register import FIELDS as FIELDS
from attnflow.claims.register import KINDS as KINDS
from attnflow.claims.register import Entry as Entry
from attnflow.claims.register import ledger as ledger
from attnflow.claims.register import read_claims as read_claims
from attnflow.claims.rows import FAILS as FAILS
from attnflow.claims.rows import FRACTION as FRACTION
from attnflow.claims.rows import HOLDS as HOLDS
from attnflow.claims.rows import LOOSE as LOOSE
from attnflow.claims.rows import MIME as MIME
from attnflow.claims.rows import OUTSIDE as OUTSIDE
from attnflow.claims.rows import SIXTH as SIXTH
from attnflow.claims.rows import UNDECIDED as UNDECIDED
from attnflow.claims.rows import Check as Check
from attnflow.claims.rows import from_json as from_json
from attnflow.claims.rows import rounded as rounded

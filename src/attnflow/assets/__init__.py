"""Real text, images and trained weights: what they are, where they are kept, how they get there.

``catalogue``
    the table: packages, versions, hashes, licences
``places``
    where the files are, and whether they are what they should be
``fetching``
    how they get there
"""

from attnflow.assets.catalogue import ASSETS as ASSETS
from attnflow.assets.catalogue import Asset as Asset
from attnflow.assets.catalogue import AssetError as AssetError
from attnflow.assets.catalogue import Member as Member
from attnflow.assets.fetching import fetch as fetch
from attnflow.assets.places import VARIABLE as VARIABLE
from attnflow.assets.places import available as available
from attnflow.assets.places import directory as directory
from attnflow.assets.places import read as read
from attnflow.assets.places import supply as supply
from attnflow.assets.places import verify as verify

"""An application without task types, for services that tests start."""

from andon import Andon

app = Andon()

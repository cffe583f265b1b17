"""Who starts a round of a partial collective (eager-SGD, section 4): `repro.fabric.activation` says what each does."""

SOLO, MAJORITY, QUORUM = "solo", "majority", "quorum"
INITIATORS = (SOLO, MAJORITY, QUORUM)

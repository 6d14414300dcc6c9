"""What a run must have delivered, whatever happened in it."""


class HistoryError(AssertionError):
    pass


def _where(entry):
    return f"epoch {entry['epoch']}, positions {entry['first']}…{entry['first'] + entry['valid'] - 1}"


def check(history, undisturbed):
    """Raises unless `history` (consumed batches, in the order of consumption) is `undisturbed`, batch for batch."""
    for number, (got, expected) in enumerate(zip(history, undisturbed)):
        if (got["epoch"], got["first"], got["valid"]) != (
            expected["epoch"], expected["first"], expected["valid"],
        ):
            raise HistoryError(
                f"batch {number}: got {_where(got)}, expected {_where(expected)}: "
                "something was lost, repeated or out of order"
            )
        if got["digest"] != expected["digest"]:
            raise HistoryError(f"batch {number} ({_where(got)}): other bytes than in the undisturbed run")
    if len(history) != len(undisturbed):
        raise HistoryError(f"{len(history)} batches were consumed, expected {len(undisturbed)}")

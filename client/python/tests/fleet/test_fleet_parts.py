"""The parts of a fleet: what a target names, the cursors of several replicas' batches, and what a replica may send."""

import os
import types

import pytest

from bulkhead import errors
from bulkhead._fleet.assembly import Assembly
from bulkhead._fleet.assigned_order import AssignedOrder
from bulkhead._fleet.cursors import Cursors
from bulkhead._fleet.member import Member
from bulkhead._fleet.replicas import FleetEndpoint, Replica, find, is_fleet, named_by
from bulkhead._rpc import proto
from bulkhead._service.arguments import Arguments
from bulkhead._service.target_file import one_service, resolve

CURSOR = {"epoch": 2, "consumed": 8, "substitutions": 3, "quarantined": ["b"]}


def test_one_of_the_services_of_a_file(tmp_path):
    token, file = tmp_path / "token", tmp_path / "loader.yaml"
    token.write_text("secret\n")
    file.write_text("target: unix:/a, unix:/b,unix:/a\ntoken_file: token\n")
    for named in ("unix:/a", "unix:/b"):
        address, known = one_service(f"{file}#{named}", None)
        assert (address, known.token_file) == (named, str(token))
    with pytest.raises(errors.InvalidArgument, match=f"names several services .*: name it, as in {file}#unix:/a$"):
        one_service(str(file), None)
    with pytest.raises(errors.InvalidArgument, match=f"{file} names no service 'unix:/c', but unix:/a, unix:/b"):
        one_service(f"{file}#unix:/c", None)
    file.write_text("target: unix:/a,unix:/a\n")
    assert one_service(str(file), None)[0] == "unix:/a"
    with pytest.raises(errors.InvalidArgument, match="as in h:1$"):
        one_service("h:1,h:2", None)
    assert one_service("unix:/a,b", None)[0] == "unix:/a,b"


@pytest.mark.parametrize(
    "target, named",
    [
        (["h:1", "unix:/x"], ["h:1", "unix:/x"]),
        ("h:1,h:2", ["h:1", "h:2"]),
        ("h:1, h:2", ["h:1", "h:2"]),
        ("unix:/a,b", None),
        ("unix:/a,h:1", ["unix:/a", "h:1"]),
        ("dns:///loader.svc:7077", ["dns:///loader.svc:7077"]),
        ("h:1", None),
        (None, None),
    ],
)
def test_what_a_target_names(target, named):
    assert named_by(target) == named


@pytest.mark.parametrize("target", [[], ["h:1", "nothing"], ["h:1", 2]])
def test_a_list_with_something_else_is_refused(target):
    with pytest.raises(errors.InvalidArgument):
        named_by(target)


def test_one_target_is_no_fleet_and_a_name_is():
    assert not is_fleet(["h:1"]) and is_fleet(["dns:///h:1"]) and is_fleet(["h:1", "h:2"])


def test_a_name_has_all_its_addresses_and_is_what_their_certificate_says(monkeypatch):
    answers = [(2, 1, 6, "", ("10.0.0.2", 7)), (2, 1, 6, "", ("10.0.0.1", 7)), (10, 1, 6, "", ("fd00::1", 7, 0, 0))]
    monkeypatch.setattr("socket.getaddrinfo", lambda *_, **__: answers + answers)
    found = find(["dns:///loader.svc:7", "h:1", "h:1"])
    assert found == [
        Replica("10.0.0.1:7", "loader.svc"),
        Replica("10.0.0.2:7", "loader.svc"),
        Replica("[fd00::1]:7", "loader.svc"),
        Replica("h:1", ""),
    ]


def test_a_target_file_is_read_again_when_it_changes_and_kept_when_it_cannot_be(tmp_path):
    file = tmp_path / "t.yaml"
    file.write_text("target: h:1,h:2\n")
    endpoint = FleetEndpoint(["h:1", "h:2"], Arguments(), str(file))
    warned = []
    for text, targets in (("target: h:2,h:3\n", ["h:2", "h:3"]), ("targets: x\n", ["h:2", "h:3"]), ("target: h:4\n", ["h:4"])):
        file.write_text(text)
        os.utime(file, ns=(0, len(text) + len(warned)))
        assert [each.target for each in endpoint.look(warned.append)] == targets
    assert len(warned) == 1 and "there is no `targets`" in warned[0]


def test_a_target_file_may_be_given_as_a_path(tmp_path):
    file = tmp_path / "t.yaml"
    file.write_text("target: h:1,h:2\ntoken_file: token\n")
    address, credentials = resolve(file, None)
    assert (address, credentials.token_file) == ("h:1,h:2", str(tmp_path / "token"))


def header(**fields):
    return proto.BatchHeader(**{"sample_count": 8, "epoch": 2, "next_epoch": 2, **fields})


def test_substitutions_add_up_over_the_replicas_and_begin_again_with_the_epoch():
    cursors = Cursors(CURSOR, 9)
    assert cursors.after(header(next_consumed=16, substituted=2))["substitutions"] == 5
    assert cursors.after(header(next_consumed=24))["substitutions"] == 5
    last = cursors.after(header(next_epoch=3, next_consumed=0, substituted=1))
    assert (last["epoch"], last["consumed"], last["substitutions"]) == (3, 0, 0)
    assert cursors.after(header(epoch=3, next_epoch=3, next_consumed=8, substituted=1))["substitutions"] == 1


def test_too_many_substitutions_are_an_error_behind_the_last_good_batch():
    cursors = Cursors(CURSOR, 4)
    cursors.after(header(next_consumed=16, substituted=1))
    with pytest.raises(errors.DataError, match="epoch 2 needed 5 substitutions on this rank, errors.max_fraction allows 4"):
        cursors.after(header(next_consumed=24, substituted=1))
    assert cursors.cursor["consumed"] == 16


def test_quarantine_sets_are_united_up_to_what_a_cursor_holds():
    cursors = Cursors(CURSOR, 9)
    cursors.quarantine(["c", "a"])
    assert cursors.after(header())["quarantined"] == ["a", "b", "c"]
    cursors.quarantine([str(number) for number in range(253)])
    assert len(cursors.quarantined) == 256
    with pytest.raises(errors.ResourceExhausted, match="have 257 records in quarantine"):
        cursors.quarantine(["one more"])


def test_code_of_another_content_is_an_error_that_names_the_replica():
    cursors = Cursors(CURSOR, 9)
    cursors.note_code([proto.BatchHeader(code=[{"name": "m.py", "digest": "1", "later": True}]).code[0]], "h:1")
    assert cursors.after(header())["code"] == [{"name": "m.py", "digest": "1", "later": True}]
    with pytest.raises(errors.CodeChanged, match="the replica at h:2 has loaded another content of m.py"):
        cursors.note_code(header(code=[{"name": "m.py", "digest": "2"}]).code, "h:2")


def order(assigned=True):
    layout = types.SimpleNamespace(batch_size=8, batch_bytes=100)
    return AssignedOrder(types.SimpleNamespace(assigned=assigned), layout, 1, {"quarantined": []})


def test_a_service_that_knows_no_replicas_is_refused():
    with pytest.raises(errors.ProtocolError, match="update it"):
        order(assigned=False)


def test_only_what_was_asked_for_or_is_no_longer_needed_may_come():
    checked = order()
    checked.assign([4, 9], 2)
    for sequence in (4, 9, 1):
        checked.check(header(sequence=sequence))
    with pytest.raises(errors.ProtocolError, match="batch 5, which it was not asked for"):
        checked.check(header(sequence=5))
    checked.note(header(sequence=4))
    with pytest.raises(errors.ProtocolError):
        checked.check(header(sequence=4))
    checked.assign([4], 2)
    checked.check(header(sequence=4))


def test_a_batch_with_another_quarantine_is_refused():
    checked = order()
    checked.assign([1], 0)
    checked.quarantine("x")
    with pytest.raises(errors.ProtocolError, match="other records in quarantine"):
        checked.check(header(sequence=1))


class Asked:
    """Stands in for a replica's stream."""

    arena = None

    def __init__(self):
        self.batches = []

    def ask(self, batches, needed_from):
        self.batches += batches


def assembly_of(*members):
    opened = proto.StreamResponse(opened={"batches_per_epoch": 100, "epochs": 1, "batches_left_in_epoch": 100}).opened
    assembly = Assembly(types.SimpleNamespace(batches=2, bytes=1 << 30))
    for member in members:
        member.stream = Asked()
        assembly.compare(member, opened, types.SimpleNamespace(batch_bytes=8, ragged={}, class_names={}, normalizations={}))
    assembly.begin(list(members), len(members))
    return assembly


def test_when_the_quarantine_grows_what_came_before_is_made_again():
    one, two = Member(Replica("h:1", "")), Member(Replica("h:2", ""))
    assembly = assembly_of(one, two)
    assert sorted(one.stream.batches + two.stream.batches) == list(range(6))  # credits, and two for each
    [first, *_] = two.stream.batches
    assembly.arrived(two, header(sequence=first), {})
    assert assembly.ready == 1
    assert assembly.quarantine(["x"]) == ["x"] and assembly.quarantine(["x"]) is None
    assembly.redo()
    assert assembly.ready == 0
    assert (one.stream.batches + two.stream.batches).count(first) == 2


def test_a_replica_that_joined_later_counts_from_where_it_began():
    one, two = Member(Replica("h:1", "")), Member(Replica("h:2", ""))
    assembly = assembly_of(one)
    for sequence in range(3):
        assembly.arrived(one, header(sequence=sequence), {})
        assert assembly.hand_out().sequence == sequence
    two.stream, two.base = Asked(), 3
    assembly.join([two])
    assembly.leave(one)
    assert two.stream.batches == [0, 1, 2, 3], "the window, by its own numbers"
    assert assembly.arrived(two, header(sequence=0), {})
    assert assembly.hand_out().sequence == 3

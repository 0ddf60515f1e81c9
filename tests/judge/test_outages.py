"""Which packets a fault covers, where they stand in a team's log, and how much a team may send."""

from hypothesis import given
from hypothesis import strategies as st

from bci_stream.contest.contest import Limits
from bci_stream.judge.session.limits import FREE_MESSAGES, MEGABYTE, MINUTE_S, MessageQuota
from bci_stream.judge.session.outages import SETTLE_S, OutageTracker, PacketOutage, PacketPlaces

LONGEST_S, GRACE_S, PACKET_S = 0.25, 0.04, 0.04
LATER = 1e6


def tracker(packets: int = 100) -> OutageTracker:
    """Packet k left on time, at k * PACKET_S, and arrived at once."""
    tracked = OutageTracker(LONGEST_S, GRACE_S)
    for k in range(packets):
        tracked.add_packet(k, k * PACKET_S, k * PACKET_S, k * PACKET_S)
    return tracked


def spans(outages: list[PacketOutage]) -> list[tuple[int, int, str]]:
    return [(outage.first, outage.last, outage.cause.code) for outage in outages]


class TestOutageTracker:
    def test_without_a_fault_there_is_no_outage(self) -> None:
        assert tracker().take(LATER) == []

    def test_a_fault_before_the_first_packet_covers_none(self) -> None:
        tracked = tracker(0)
        tracked.add_fault(0.0, 1.0, "outage_judge")
        assert tracked.take(LATER) == []

    def test_a_stall_covers_the_packet_that_teams_were_at_work_on_to_the_last_one_in_it(
        self,
    ) -> None:
        tracked = tracker()
        tracked.add_fault(1.01, 2.01, "outage_judge")
        # Packet 25 left at 1.00; within its grace, packet 24 is what the teams have received. What had
        # queued up is read by 2.26.
        assert spans(tracked.take(LATER)) == [(24, 56, "outage_judge")]

    def test_a_late_packet_is_an_outage_of_the_replay(self) -> None:
        tracked = tracker(10)
        tracked.add_packet(10, 0.40, 1.90, 1.90)
        (outage,) = tracked.take(LATER)
        assert spans([outage]) == [(9, 10, "outage_replay")]
        assert outage.cause.to_json()["parameters"] == {"outage_s": 1.5}

    def test_a_packet_that_arrives_late_is_an_outage_of_the_link(self) -> None:
        tracked = tracker(10)
        for k in range(10, 60):  # sent on time, and delivered together when the link is back
            tracked.add_packet(k, k * PACKET_S, k * PACKET_S, 2.40)
        ((first, last, code),) = spans(tracked.take(LATER))
        assert (first, last, code) == (9, 59, "outage_link")

    def test_a_replay_that_stood_still_when_a_packet_had_just_left_is_the_cause(self) -> None:
        tracked = tracker(10)
        tracked.add_packet(10, 0.40, 0.40, 1.95)  # stamped, and still in the replay's own buffer
        tracked.add_packet(11, 0.44, 1.92, 1.95)
        ((_, _, code),) = spans(tracked.take(LATER))
        assert code == "outage_replay"

    def test_other_connections_may_be_back_later_by_as_long_as_the_link_was_down(self) -> None:
        """TCP doubles its waits, so a team's reports may come so much later than the packets."""
        tracked = tracker(10)
        tracked.add_packet(10, 0.40, 0.40, 1.40)
        for k in range(11, 100):
            tracked.add_packet(k, k * PACKET_S, k * PACKET_S, max(1.40, k * PACKET_S))
        ((_, last, _),) = spans(tracked.take(LATER))
        assert last * PACKET_S >= 2.40

    def test_the_arrival_in_a_history_is_unknown_and_no_fault(self) -> None:
        tracked = tracker(10)
        tracked.add_packet(10, 0.40, 0.40, None)
        assert tracked.take(LATER) == []

    def test_just_the_limit_is_no_outage(self) -> None:
        tracked = tracker(10)
        tracked.add_packet(10, 0.50, 0.50 + LONGEST_S, 0.50 + 2 * LONGEST_S)
        assert tracked.take(LATER) == []

    def test_faults_that_overlap_are_one_outage(self) -> None:
        tracked = tracker()
        tracked.add_fault(1.0, 2.0, "outage_judge")
        tracked.add_fault(2.1, 3.0, "outage_judge")
        assert spans(tracked.take(LATER)) == [(24, 81, "outage_judge")]

    def test_an_outage_is_given_once_and_not_before_its_packets_are_here(self) -> None:
        tracked = tracker()
        tracked.add_fault(1.0, 2.0, "outage_judge")
        settled = 2.0 + LONGEST_S + SETTLE_S
        assert tracked.take(settled - 0.01) == []
        assert spans(tracked.pending()) == [(24, 56, "outage_judge")]  # for a team that leaves now
        assert spans(tracked.take(settled)) == [(24, 56, "outage_judge")]
        assert tracked.take(LATER) == tracked.pending() == []

    def test_two_faults_far_apart_are_two_outages_in_whichever_order_they_come(self) -> None:
        for faults in ([(1.0, 1.5), (3.0, 3.5)], [(3.0, 3.5), (1.0, 1.5)]):
            tracked = tracker()
            for since, until in faults:
                tracked.add_fault(since, until, "outage_replay")
            outages = sorted(spans(tracked.take(LATER)))
            assert outages == [(24, 37, "outage_replay"), (74, 87, "outage_replay")]

    def test_what_a_judge_reads_late_because_it_stood_still_is_no_fault_of_the_link(self) -> None:
        tracked = tracker(25)
        tracked.add_fault(1.0, 2.0, "outage_judge")
        for k in range(25, 100):
            tracked.add_packet(k, k * PACKET_S, k * PACKET_S, max(2.1, k * PACKET_S))
        assert spans(tracked.take(LATER)) == [(24, 56, "outage_judge")]

    @given(
        st.lists(st.floats(0, 0.5), min_size=1, max_size=40),
        st.lists(st.tuples(st.floats(-1, 20), st.floats(0.26, 5)), max_size=5),
    )
    def test_each_packet_that_leaves_in_a_fault_is_covered(
        self, gaps: list[float], faults: list[tuple[float, float]]
    ) -> None:
        tracked = OutageTracker(LONGEST_S, GRACE_S)
        left = 0.0
        leaving = []
        for k, gap in enumerate(gaps):
            left += gap
            leaving.append(left)
            tracked.add_packet(k, left, left, None)
        for since, length in sorted(faults):
            tracked.add_fault(since, since + length, "outage_judge")
        covered: set[int] = set()
        for outage in tracked.take(LATER):
            assert 0 <= outage.first <= outage.last < len(gaps)
            covered |= set(range(outage.first, outage.last + 1))
        for since, length in faults:
            assert {k for k, at in enumerate(leaving) if since <= at <= since + length} <= covered


class TestPacketPlaces:
    def test_places_are_counted_from_0_in_each_session(self) -> None:
        places = PacketPlaces()
        for number in range(10):
            places.add(number // 6, number)
        assert places.between(2, 4) == [(0, 2, 4)]
        assert places.between(4, 7) == [(0, 4, 5), (1, 0, 1)]
        assert places.between(9, 30) == [(1, 3, 3)]
        assert places.between(10, 30) == []
        assert (places.count, places.next_number) == (10, 10)

    def test_a_team_that_joined_late_has_its_own_places(self) -> None:
        places = PacketPlaces()
        for number in range(100, 110):
            places.add(0, number)
        assert places.between(90, 95) == []
        assert places.between(95, 103) == [(0, 0, 3)]
        assert places.next_number == 110

    def test_logs_of_version_1_have_no_numbers(self) -> None:
        places = PacketPlaces()
        for _ in range(5):
            places.add(0, None)
        assert places.between(1, 3) == [(0, 1, 3)]

    def test_sessions_without_a_packet_have_no_places(self) -> None:
        places = PacketPlaces()
        places.add(2, 7)
        assert places.between(0, 10) == [(2, 0, 0)]

    @given(st.lists(st.booleans(), min_size=1, max_size=60), st.integers(0, 70), st.integers(0, 70))
    def test_between_names_just_the_packets_of_these_numbers(
        self, received: list[bool], one: int, other: int
    ) -> None:
        places, by_place = PacketPlaces(), {}
        counts: dict[int, int] = {}
        for number, is_received in enumerate(received):
            session = number // 20
            if is_received:
                places.add(session, number)
                by_place[session, counts.get(session, 0)] = number
                counts[session] = counts.get(session, 0) + 1
        first, last = sorted((one, other))
        named = [
            by_place[session, place]
            for session, begin, end in places.between(first, last)
            for place in range(begin, end + 1)
        ]
        assert named == [n for n in sorted(by_place.values()) if first <= n <= last]


class TestMessageQuota:
    def test_messages_for_each_packet_and_some_more(self) -> None:
        quota = MessageQuota(Limits(reports_a_packet=2))
        for _ in range(FREE_MESSAGES + 2 * 4):
            assert quota.add(10, 0.0, packets=3) is None
        exceeded = quota.add(10, 0.0, packets=3)
        assert exceeded is not None
        assert exceeded.code == "too_many_messages"
        assert quota.add(10, 0.0, packets=4) is None  # the next packet allows two more

    def test_megabytes_of_a_minute(self) -> None:
        quota = MessageQuota(Limits(message_mb_a_minute=1))
        half = MEGABYTE // 2
        assert quota.add(half, 0.0, 100) is None
        assert quota.add(half, 30.0, 100) is None
        assert quota.add(half, MINUTE_S + 1.0, 100) is None  # the first one is over a minute old
        exceeded = quota.add(half, MINUTE_S + 2.0, 100)
        assert exceeded is not None
        assert exceeded.code == "too_much_a_minute"

    def test_megabytes_of_a_run(self) -> None:
        quota = MessageQuota(Limits(message_mb_a_minute=2, message_mb=3))
        sent = [quota.add(MEGABYTE, 100.0 * k, 100) for k in range(4)]
        assert sent[:3] == [None] * 3
        assert sent[3] is not None
        assert sent[3].code == "too_much_in_all"

    @given(st.lists(st.tuples(st.floats(0, 3), st.integers(0, 300_000)), max_size=60))
    def test_a_minute_is_never_charged_with_more_than_was_sent_in_it(
        self, messages: list[tuple[float, int]]
    ) -> None:
        quota = MessageQuota(Limits(message_mb_a_minute=1))
        at, sent = 0.0, []
        for gap, length in messages:
            at += gap
            sent.append((at, length))
            exceeded = quota.add(length, at, 1000)
            within = sum(size for when, size in sent if when >= at - MINUTE_S)
            around = sum(size for when, size in sent if when >= at - MINUTE_S - 1.0)
            assert not (exceeded is not None and around <= MEGABYTE)
            assert not (exceeded is None and within - sent_in_the_first_second(sent, at) > MEGABYTE)


def sent_in_the_first_second(sent: list[tuple[float, int]], at: float) -> int:
    """Sums are kept by whole seconds: the second in which the minute begins counts all or not at all."""
    begin = at - MINUTE_S
    return sum(size for when, size in sent if begin <= when < int(begin) + 1.0)

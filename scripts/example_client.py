"""A decoder without our packages: pylsl and the standard library alone, written from docs/protocol.md.

    python scripts/example_client.py --contest default --track erp --team outsider --token FILE

It takes part in lockstep and in real time alike, and reports a fixed answer every RESULT_EVERY packets:
put your own algorithm where it says so.
"""

import argparse
import hashlib
import hmac
import json
import time
from pathlib import Path

import pylsl

RESULT_EVERY = 20


class Client:
    """One team: its results stream, its number, its signature."""

    def __init__(self, contest: str, team: str, token: bytes) -> None:
        self.contest, self.team, self.token = contest, team, token
        self.run = ""
        self.seq = time.time_ns() // 1000  # numbers must grow, also over a restart
        source_id = f"bci/{contest}/results/{team}"
        info = pylsl.StreamInfo(
            f"{contest}-{team}-results", "BCI-Results", 1, 0, "string", source_id
        )
        self.outlet = pylsl.StreamOutlet(info)

    def send(self, kind: str, **fields: object) -> None:
        self.seq += 1
        head = {"kind": kind, "contest": self.contest, "run": self.run, "team": self.team}
        text = json.dumps({**head, "seq": self.seq, **fields})
        signature = hmac.new(self.token, text.encode(), hashlib.sha256).hexdigest()
        self.outlet.push_sample([f"{text} {signature}"])


def find(source_id: str, timeout_s: float) -> pylsl.StreamInfo:
    found = pylsl.resolve_bypred(f"starts-with(source_id,'{source_id}')", 1, timeout_s)
    if not found:
        raise SystemExit(f"no stream {source_id}* within {timeout_s:g} s: is the replay started?")
    return found[0]


def await_kind(client: Client, control: pylsl.StreamInlet, kind: str, kinds: tuple[str, ...],
               timeout_s: float, **fields: object) -> dict[str, object]:  # fmt: skip
    """Send a message every quarter of a second until one of these kinds is received."""
    deadline = time.monotonic() + timeout_s
    while time.monotonic() < deadline:
        client.send(kind, **fields)
        next_at = time.monotonic() + 0.25
        while time.monotonic() < next_at:
            sample, _ = control.pull_sample(timeout=0.25)
            message = json.loads(sample[0]) if sample else {}
            addressed = message.get("team", client.team) == client.team
            if message.get("kind") in kinds and addressed:
                return message
    raise SystemExit(f"waited {timeout_s:g} s for {' or '.join(kinds)}, which never came")


def take_part(client: Client, track: str, result: object, timeout_s: float) -> int:
    control = pylsl.StreamInlet(find(f"bci/{client.contest}/control/", timeout_s))
    control.open_stream()
    offer = await_kind(client, control, "hello", ("offer",), timeout_s)
    if offer["track"] != track:
        raise SystemExit(f"the replay plays {offer['track']}, not {track}")
    client.run = str(offer["run"])
    chosen = list(range(1, (offer["choose"] or 0) + 1))  # type: ignore[operator]
    channels = dict.fromkeys(offer["subjects"], chosen) if chosen else {}  # type: ignore[attr-defined]
    answer = await_kind(
        client, control, "join", ("welcome", "refused"), timeout_s, channels=channels
    )
    if answer["kind"] == "refused":
        raise SystemExit(f"refused: {answer['reason']}")
    proof = hmac.new(client.token, f"welcome {client.run} {client.team}".encode(), hashlib.sha256)
    if answer["proof"] != proof.hexdigest():
        raise SystemExit("this replay does not know our token: it is not the organiser's")

    signal = pylsl.StreamInlet(find(str(answer["signal"]), timeout_s))
    signal.open_stream()
    while signal.pull_sample(timeout=0.25)[0] is None:  # a probe: now nothing will be lost
        client.send("join", channels=channels)
    return decode(client, control, signal, offer["pace"] == "lockstep", result)


def decode(client: Client, control: pylsl.StreamInlet, signal: pylsl.StreamInlet, lockstep: bool,
           result: object) -> int:  # fmt: skip
    started, packets = False, 0
    while True:
        text, stamp = control.pull_sample(timeout=0.25)
        if text is None:
            if not started:
                client.send("ready")  # sent again until the session begins
            continue
        message = json.loads(text[0])
        if message["kind"] == "session":
            if lockstep and not started:
                client.send("next", packet=0)
            started = True
        elif message["kind"] == "stopped":
            raise SystemExit(f"the replay stopped: {message['reason']}")
        elif message["kind"] == "packet":
            samples = read_packet(signal, message["n"], stamp)
            assert len(samples) == message["n"]
            packets += 1
            # --- your algorithm: samples is n rows of leads, TRIGGER last; message["triggers"]
            #     lists [offset, code]; message["start"] is the position in the block.
            if packets % RESULT_EVERY == 0:
                client.send("report", result=result)
            # ---
            if message["finish"]:
                break
            if lockstep:
                client.send("next", packet=message["i"] + 1)
    client.send("done", reason="finished", detail="")
    await_closed(client)
    return packets


def read_packet(signal: pylsl.StreamInlet, n: int, stamp: float) -> list[list[float]]:
    """The n samples that end at the note's stamp; probes of the handshake are older, and passed over."""
    half_sample_s = 0.1 / signal.info().nominal_srate()
    rows: list[list[float]] = []
    while True:
        row, at = signal.pull_sample(timeout=10.0)
        if row is None:
            raise SystemExit("the samples of a packet did not come within 10 s")
        rows = [*rows[-(n - 1) :], row] if n > 1 else [row]
        if at > stamp - half_sample_s:
            return rows


def await_closed(client: Client) -> None:
    """Stay until the judge has the run in its log, or there is no judge."""
    found = pylsl.resolve_bypred(f"starts-with(source_id,'bci/{client.contest}/judge/')", 1, 2.0)
    judge = pylsl.StreamInlet(found[0]) if found else None
    deadline = time.monotonic() + 10.0
    while judge is not None and time.monotonic() < deadline:
        sample, _ = judge.pull_sample(timeout=0.5)
        if sample and '"closed"' in sample[0] and f'"{client.team}"' in sample[0]:
            return


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--contest", default="default")
    parser.add_argument("--track", required=True)
    parser.add_argument("--team", default="outsider")
    parser.add_argument("--token", type=Path, required=True)
    parser.add_argument("--result", default="1", help="What to report, as JSON.")
    parser.add_argument("--wait", type=float, default=60.0)
    parser.add_argument("--lsl-session", default="default")
    options = parser.parse_args()
    pylsl.set_config_content(
        "[ports]\nPortRange = 512\nIPv6 = disable\n"
        "[multicast]\nResolveScope = machine\nAddressesOverride = {127.0.0.1}\n"
        f"[lab]\nKnownPeers = {{127.0.0.1}}\nSessionID = {options.lsl_session}\n"
    )
    token = bytes.fromhex(options.token.read_text().strip())
    client = Client(options.contest, options.team, token)
    packets = take_part(client, options.track, json.loads(options.result), options.wait)
    print(f"done: {packets} packets")


if __name__ == "__main__":
    main()

#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
#
# check_pftrace.py - reads a .pftrace with nothing but the wire format and schemas/perfetto.proto (parsed here as
# text), so that it shares no code with the writer. Checks: no field outside the schema, times sane, the slices of
# each track nest, every flow has two ends, names and tracks resolve. Prints slices and bytes of file per slice.
import argparse
import os
import re
import struct
import sys
import zlib
from collections import Counter, defaultdict

SCHEMA = os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "schemas", "perfetto.proto")
VARINT_TYPES = {"uint64", "uint32", "int64", "int32", "bool"}


def schema_load(path):
    """{message: {number: (name, type, repeated)}} and the set of enum names."""
    text = re.sub(r"//[^\n]*", "", open(path, encoding="utf-8").read())
    messages, enums, stack = {}, set(), []
    for kind, name, label, ftype, fname, number in re.findall(
            r"(message|enum|oneof)\s+(\w+)\s*\{|(?:(optional|repeated)\s+)?(\w+)\s+(\w+)\s*=\s*(\d+)\s*;|\}", text):
        if kind:
            stack.append((kind, name))
            if kind == "message":
                messages[name] = {}
            elif kind == "enum":
                enums.add(name)
        elif fname:
            owner = [n for k, n in stack if k == "message"][-1]
            messages[owner][int(number)] = (fname, ftype, label == "repeated")
        elif stack and stack[-1][0] == "enum" and not fname:
            stack.pop()
        elif stack:
            stack.pop()
    return messages, enums


class Bad(Exception):
    pass


def varint(buf, at):
    value = shift = 0
    while True:
        if at >= len(buf):
            raise Bad("cut varint")
        byte = buf[at]
        at += 1
        value |= (byte & 0x7F) << shift
        if byte < 0x80:
            return value, at
        shift += 7
        if shift > 63:
            raise Bad("varint over 10 bytes")


def fields(buf):
    at = 0
    while at < len(buf):
        tag, at = varint(buf, at)
        number, wire = tag >> 3, tag & 7
        if wire == 0:
            value, at = varint(buf, at)
        elif wire == 1:
            value, at = buf[at:at + 8], at + 8
        elif wire == 2:
            length, at = varint(buf, at)
            value, at = buf[at:at + length], at + length
        elif wire == 5:
            value, at = buf[at:at + 4], at + 4
        else:
            raise Bad("wire type %d" % wire)
        if at > len(buf):
            raise Bad("cut field %d" % number)
        yield number, wire, value


class Decoder:
    def __init__(self, lenient=False):
        self.messages, self.enums = schema_load(SCHEMA)
        self.lenient = lenient  # fields of others are skipped, as in Chromium's trace
        self.seen = set()

    def scalar(self, ftype, wire, value):
        if ftype in VARINT_TYPES or ftype in self.enums:
            if wire != 0:
                raise Bad("wire type %d for %s" % (wire, ftype))
            return value - (1 << 64) if ftype.startswith("int") and value >> 63 else value
        if ftype in ("fixed64", "double"):
            if wire != 1:
                raise Bad("wire type %d for %s" % (wire, ftype))
            return struct.unpack("<Q" if ftype == "fixed64" else "<d", value)[0]
        if wire != 2:
            raise Bad("wire type %d for %s" % (wire, ftype))
        return value.decode("utf-8") if ftype == "string" else value

    def message(self, buf, name):
        out, known = {}, self.messages[name]
        for number, wire, value in fields(buf):
            if number not in known:
                if not self.lenient:
                    raise Bad("field %d of %s is not in the schema" % (number, name))
                continue
            fname, ftype, repeated = known[number]
            self.seen.add((name, fname))
            if ftype in self.messages:
                if wire != 2:
                    raise Bad("%s.%s is no message" % (name, fname))
                value = self.message(value, ftype)
            elif repeated and wire == 2 and ftype in VARINT_TYPES:  # packed
                packed, at = [], 0
                while at < len(value):
                    item, at = varint(value, at)
                    packed.append(item)
                out.setdefault(fname, []).extend(packed)
                continue
            else:
                value = self.scalar(ftype, wire, value)
            if repeated:
                out.setdefault(fname, []).append(value)
            else:
                out[fname] = value
        return out

    def packets(self, buf):
        """All packets, those of compressed batches in their place. Stops at a cut tail when that is allowed."""
        for number, wire, value in fields(buf):
            if number != 1 or wire != 2:
                raise Bad("a trace is a list of packets")
            self.seen.add(("Trace", "packet"))
            packet = self.message(value, "TracePacket")
            if "compressed_packets" in packet:
                yield from self.packets(zlib.decompress(packet["compressed_packets"]))
            else:
                yield packet


class Trace:
    """What the packets say, with names resolved; `errors` collects what is wrong."""

    def __init__(self):
        self.errors = []
        self.tracks = {0: {"name": "root"}}
        self.events = []  # (ts, position, track, type, name, event)
        self.clocks, self.primary_clock, self.realtime = [], None, None
        self.sequences = {}  # id: interned names, defaults
        self.unnamed = set()

    def error(self, text):
        if len(self.errors) < 50:
            self.errors.append(text)

    def sequence(self, packet):
        seq = packet.get("trusted_packet_sequence_id", 0)
        if packet.get("sequence_flags", 0) & 1:
            self.sequences[seq] = {"names": defaultdict(dict), "defaults": {}}
        state = self.sequences.setdefault(seq, {"names": defaultdict(dict), "defaults": {}})
        for kind, entries in packet.get("interned_data", {}).items():
            for entry in entries:
                state["names"][kind][entry["iid"]] = entry.get("name", "")
        if "trace_packet_defaults" in packet:
            state["defaults"] = packet["trace_packet_defaults"]
        return state

    def resolve(self, state, kind, iid):
        if iid not in state["names"][kind]:
            self.error("%s %d is used but never interned" % (kind, iid))
            return "?"
        return state["names"][kind][iid]

    def add(self, packet):
        state = self.sequence(packet)
        if "clock_snapshot" in packet:
            self.clocks.append({c["clock_id"]: c["timestamp"] for c in packet["clock_snapshot"].get("clocks", [])})
            self.primary_clock = packet["clock_snapshot"].get("primary_trace_clock", self.primary_clock)
        if "track_descriptor" in packet:
            descriptor = packet["track_descriptor"]
            self.tracks.setdefault(descriptor.get("uuid", 0), {}).update(descriptor)
        if "track_event" in packet:
            self.add_event(packet, packet["track_event"], state)

    def add_event(self, packet, event, state):
        if "timestamp" not in packet:
            return self.error("a track event without a timestamp")
        defaults = state["defaults"].get("track_event_defaults", {})
        track = event.get("track_uuid", defaults.get("track_uuid", 0))
        name = event.get("name")
        if "name_iid" in event:
            name = self.resolve(state, "event_names", event["name_iid"])
        for iid in event.get("category_iids", []):
            self.resolve(state, "event_categories", iid)
        for note in event.get("debug_annotations", []):
            if "name_iid" in note:
                self.resolve(state, "debug_annotation_names", note["name_iid"])
            if "string_value_iid" in note:
                self.resolve(state, "debug_annotation_string_values", note["string_value_iid"])
        self.events.append((packet["timestamp"], len(self.events), track, event.get("type", 0), name, event))


def inflate(data, out):
    """The same trace with its batches opened, for readers that know no compression (protoc)."""
    for _, _, value in fields(data):
        inner = [v for n, w, v in fields(value) if n == 50 and w == 2]
        if inner:
            out.write(zlib.decompress(inner[0]))
        else:
            length, tail = len(value), bytearray()
            while length >= 0x80:
                tail.append(length & 0x7F | 0x80)
                length >>= 7
            out.write(b"\x0a" + bytes(tail) + bytes([length]) + value)


def track_name(trace, uuid):
    track = trace.tracks.get(uuid, {})
    for value in (track.get("name"), track.get("process", {}).get("process_name"),
                  track.get("thread", {}).get("thread_name")):
        if value:
            return value
    return "track %d" % uuid


def check_times(trace):
    stamps = [e[0] for e in trace.events]
    if not trace.clocks or 3 not in trace.clocks[0]:
        return trace.error("no clock snapshot with the monotonic clock")
    if trace.primary_clock != 3:
        trace.error("the trace's clock is not the monotonic one")
    for state in trace.sequences.values():
        if state["defaults"].get("timestamp_clock_id", 3) != 3:
            trace.error("timestamps are not of the monotonic clock")
    if stamps and max(stamps) - min(stamps) > 30 * 86400 * 10**9:
        trace.error("events span %.0f days" % ((max(stamps) - min(stamps)) / 86400e9))
    return None


def check_slices(trace):
    """Walk each track in time order, file order at equal times, as a reader does. Returns slices, and flows by id."""
    open_slices, slices, flows = defaultdict(list), [], defaultdict(list)
    for ts, _, track, kind, name, event in sorted(trace.events, key=lambda e: e[:2]):
        if track not in trace.tracks:
            trace.error("event %r on track %d that is not described" % (name, track))
        if kind == 1:
            if name is None:
                trace.error("a slice without a name on %r" % track_name(trace, track))
            open_slices[track].append((ts, name))
        elif kind == 2:
            if not open_slices[track]:
                trace.error("an end without a begin on %r at %d" % (track_name(trace, track), ts))
                continue
            begin, begun = open_slices[track].pop()
            slices.append((track, begin, ts, begun, len(open_slices[track])))
        elif kind == 4 and "counter_value" not in event:
            trace.error("a counter without a value on %r" % track_name(trace, track))
        elif kind not in (3, 4):
            trace.error("event type %d" % kind)
        for flow in event.get("flow_ids", []):
            flows[flow].append((ts, False))
        for flow in event.get("terminating_flow_ids", []):
            flows[flow].append((ts, True))
    left = [(track_name(trace, t), n) for t, stack in open_slices.items() for _, n in stack]
    return slices, flows, left


def check_pairs(trace):
    """Slices again, but from each begin and the end that follows it in the file: the writer's own pairs must be the
    reader's, else a slice is drawn with another's length."""
    begun, pairs = {}, Counter()
    for ts, _, track, kind, name, _ in trace.events:
        if kind == 1:
            begun[track] = (ts, name)
        elif kind == 2 and track in begun:
            begin, begin_name = begun.pop(track)
            pairs[(track, begin, ts, begin_name)] += 1
    return pairs


def check_flows(trace, flows):
    for flow, ends in flows.items():
        if len(ends) < 2:
            trace.error("flow %d has one end" % flow)
        if any(last for _, last in ends[:-1]):
            trace.error("flow %d goes on after its end" % flow)


def check_expected(trace, args, slices, flows):
    names = {track_name(trace, t) for t in trace.tracks}
    for name in filter(None, args.expect_tracks.split(",")):
        if name not in names:
            trace.error("no track %r" % name)
    titles = Counter(re.sub(r" #\d+.*| for rank \d+", "", s[3]) for s in slices)  # "AllReduce #365 16 MiB": AllReduce
    for name, _, n in (want.partition("=") for want in filter(None, args.expect_slices.split(","))):
        if not titles[name] or (n and titles[name] != int(n)):
            trace.error("%d slices %r, expected %s" % (titles[name], name, n or "some"))
    longest = max(((e - b, n) for _, b, e, n, _ in slices), default=(0, ""))
    if args.longest_ms and longest[0] > args.longest_ms * 1e6:
        trace.error("%r is %.3f ms long, expected at most %g" % (longest[1], longest[0] / 1e6, args.longest_ms))
    if len(flows) < args.expect_flows:
        trace.error("%d flows, expected at least %d" % (len(flows), args.expect_flows))


def check_file(path, args):
    trace, decoder = Trace(), Decoder(args.lenient)
    data = open(path, "rb").read()
    try:
        for packet in decoder.packets(data):
            trace.add(packet)
    except (Bad, zlib.error, UnicodeDecodeError) as e:
        if not (args.truncated and trace.events):
            trace.error("cannot be decoded: %s" % e)
    if args.inflate:
        with open(args.inflate, "wb") as out:
            inflate(data, out)
    if args.chromium:
        return check_chromium(trace, decoder, path)
    check_times(trace)
    slices, flows, left = check_slices(trace)
    pairs = check_pairs(trace)
    drawn = Counter((t, b, e, n) for t, b, e, n, _ in slices)
    swapped = sum((pairs - drawn).values())
    if swapped:
        trace.error("%d slices would be drawn with another's length, e.g. %r" % (swapped, next(iter(pairs - drawn))))
    if left and not args.truncated:
        trace.error("%d slices are never ended, e.g. %r" % (len(left), left[0]))
    check_flows(trace, flows)
    check_expected(trace, args, slices, flows)
    per_slice = len(data) / len(slices) if slices else 0
    print("%s: %d slices on %d tracks, %d instants and counter values, %d flows, %d bytes, %.1f bytes per slice" % (
        path, len(slices), len({s[0] for s in slices}), sum(e[3] > 2 for e in trace.events), len(flows), len(data),
        per_slice))
    if args.max_bytes_per_slice and per_slice > args.max_bytes_per_slice:
        trace.error("over %g bytes per slice" % args.max_bytes_per_slice)
    return trace.errors


def check_chromium(trace, decoder, path):
    """Another program's trace: do the field numbers of our schema carry what we take them for?"""
    names = [d.get("name") or d.get("process", {}).get("process_name") or d.get("thread", {}).get("thread_name")
             for d in trace.tracks.values()]
    threads = [d["thread"] for d in trace.tracks.values() if "thread" in d]
    processes = [d["process"] for d in trace.tracks.values() if "process" in d]
    kinds = Counter(e[3] for e in trace.events)
    titles = Counter(e[4] for e in trace.events if e[4])
    notes = sum(len(e[5].get("debug_annotations", [])) for e in trace.events)
    flows = sum(len(e[5].get("flow_ids", [])) + len(e[5].get("terminating_flow_ids", [])) for e in trace.events)
    interned = Counter(k for s in trace.sequences.values() for k, v in s["names"].items() for _ in v)
    clock_ids = {i for c in trace.clocks for i in c}
    facts = {
        "track events": len(trace.events) > 100,
        "begin and end and instant events": kinds[1] > 10 and kinds[2] > 10 and kinds[3] > 0,
        "event names": len(titles) > 10 and all(n.isprintable() for n in titles),
        "thread tracks with a name": any(t.get("thread_name", "").startswith("Cr") for t in threads),
        "thread tracks with pid and tid": any(t.get("pid", 0) > 0 and t.get("tid", 0) > 0 for t in threads),
        "process tracks with a pid": any(p.get("pid", 0) > 0 for p in processes),
        "track names": any(names),
        "clocks monotonic and boottime": {3, 6} <= clock_ids,
        "interned names of categories, events and annotations":
            all(interned[k] > 3 for k in ("event_categories", "event_names", "debug_annotation_names")),
        "annotations": notes > 10,
        "flows": flows > 10,
        "defaults with a track": any("track_uuid" in s["defaults"].get("track_event_defaults", {})
                                     for s in trace.sequences.values()),
        "timestamps near the clock snapshot's": any(abs(e[0] - t) < 3600e9 for t in trace.clocks[0].values()
                                                    for e in trace.events[:100]),
    }
    print("%s: %d events of types %s, %d flow ends, %d annotations, interned %s, clocks %s" % (
        path, len(trace.events), dict(kinds), flows, notes, dict(interned), sorted(clock_ids)))
    ours = {(message, field[0]) for message, known in decoder.messages.items() for field in known.values()}
    unseen = sorted("%s.%s" % field for field in ours - decoder.seen)
    print("%s: fields of ours that it does not use: %s" % (path, ", ".join(unseen) or "none"))
    return trace.errors + ["not seen: " + fact for fact, seen in facts.items() if not seen]


def main():
    parser = argparse.ArgumentParser(description="check a Perfetto trace written by ranktrace")
    parser.add_argument("files", nargs="+")
    parser.add_argument("--truncated", action="store_true", help="the file may end in the middle (kill -9)")
    parser.add_argument("--max-bytes-per-slice", type=float, default=0)
    parser.add_argument("--expect-tracks", default="", help="names, comma-separated")
    parser.add_argument("--expect-slices", default="", help="names, comma-separated; NAME=N: so many")
    parser.add_argument("--expect-flows", type=int, default=0)
    parser.add_argument("--longest-ms", type=float, default=0, help="no slice is longer")
    parser.add_argument("--inflate", metavar="OUT", help="write the trace again without compression")
    parser.add_argument("--lenient", action="store_true", help="skip fields that are not in the schema")
    parser.add_argument("--chromium", action="store_true", help="check the schema against a trace of Chromium")
    args = parser.parse_args()
    args.lenient |= args.chromium
    failed = False
    for path in args.files:
        for error in check_file(path, args):
            failed = True
            print("%s: %s" % (path, error), file=sys.stderr)
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())

#!/usr/bin/env python3
"""The dashboards: grafana/generate.py writes grafana/dashboards/*.json, which Grafana reads.

A panel here is a question, where its answer comes from, and what to make of it; what Grafana wants to know
besides is the same for all of them and stands below. `--check` says whether the files are fresh.
"""

import json
import pathlib
import sys

HERE = pathlib.Path(__file__).parent / "dashboards"
WIDTH = 24
SOURCE = {"type": "prometheus", "uid": "${datasource}"}

GREEN, YELLOW, RED, BLUE = "green", "yellow", "red", "blue"

# What every query is about: the engines chosen above the panels.
ENGINE = 'instance=~"$instance"'
PROVIDER = ENGINE + ', provider=~"$provider"'


def rate(metric, by="", where=ENGINE, times=1):
    """Events each second (with `times` 60, each minute), summed."""
    summed = f"sum by ({by}) " if by else "sum"
    query = f"{summed}(rate({metric}{{{where}}}[$__rate_interval]))"
    return query if times == 1 else f"{times} * {query}"


def total(metric, by="", where=ENGINE):
    """Events in the time that the dashboard shows."""
    summed = f"sum by ({by}) " if by else "sum"
    return f"{summed}(increase({metric}{{{where}}}[$__range]))"


def quantile(part, metric, by="", where=ENGINE, window="$__rate_interval"):
    labels = f"le, {by}" if by else "le"
    return f"histogram_quantile({part}, sum by ({labels}) (rate({metric}_bucket{{{where}}}[{window}])))"


def quantiles(metric, parts=(0.5, 0.95), where=ENGINE):
    names = {0.5: "half of them", 0.95: "19 of 20", 0.99: "99 of 100"}
    return [(quantile(part, metric, where=where), names[part]) for part in parts]


def mean(metric, by, where=ENGINE):
    over = lambda kind: f"sum by ({by}) (rate({metric}_{kind}{{{where}}}[$__rate_interval]))"
    return f"{over('sum')} / {over('count')}"


def thresholds(*steps):
    """(colour,), (from, colour), …: the first colour holds from the beginning."""
    return {"mode": "absolute", "steps": [{"color": step[-1], "value": step[0] if len(step) > 1 else None} for step in steps]}


def words(values):
    """Words and colours in place of values: {0: ("closed", GREEN)}."""
    options = {str(value): {"text": text, "color": color, "index": index} for index, (value, (text, color)) in enumerate(values.items())}
    return [{"type": "value", "options": options}]


def targets(queries, instant=False, form="time_series"):
    named = [(query, "") if isinstance(query, str) else query for query in queries]
    kind = {"instant": True, "range": False} if instant else {"range": True}
    return [
        {"refId": chr(ord("A") + index), "datasource": SOURCE, "expr": query, "legendFormat": legend, "format": form, **kind}
        for index, (query, legend) in enumerate(named)
    ]


def panel(kind, title, about, queries, *, unit, width, height, options, defaults=None, custom=None, instant=False, form="time_series"):
    field = {"unit": unit, "noValue": "–", **(defaults or {})}
    if custom:
        field["custom"] = custom
    return {
        "type": kind,
        "title": title,
        "description": about,
        "datasource": SOURCE,
        "gridPos": {"x": 0, "y": 0, "w": width, "h": height},
        "targets": targets(queries, instant, form),
        "fieldConfig": {"defaults": field, "overrides": []},
        "options": options,
    }


def over_time(title, about, *queries, unit, width=12, height=8, stacked=False, steps=None, top=None):
    """Lines over time; `steps` are drawn as limits, `top` is the axis' end."""
    custom = {
        "drawStyle": "line",
        "lineWidth": 1,
        "fillOpacity": 25 if stacked else 8,
        "showPoints": "never",
        "spanNulls": False,
        "stacking": {"mode": "normal" if stacked else "none", "group": "A"},
        "thresholdsStyle": {"mode": "line" if steps else "off"},
    }
    defaults = {"min": 0}
    if steps:
        defaults["thresholds"] = thresholds(*steps)
    if top is not None:
        defaults["max"] = top
    options = {
        "legend": {"displayMode": "table", "placement": "bottom", "showLegend": True, "calcs": ["mean", "max"]},
        "tooltip": {"mode": "multi", "sort": "desc"},
    }
    return panel("timeseries", title, about, queries, unit=unit, width=width, height=height, options=options, defaults=defaults, custom=custom)


def figure(title, about, *queries, unit, width=4, height=4, steps=((GREEN,),), mapping=None, graph=False, text="auto", decimals=None):
    """One large figure; with `graph` its course below it."""
    defaults = {"thresholds": thresholds(*steps)}
    if mapping:
        defaults["mappings"] = words(mapping)
    if decimals is not None:
        defaults["decimals"] = decimals
    options = {
        "colorMode": "value",
        "graphMode": "area" if graph else "none",
        "justifyMode": "auto",
        "orientation": "auto",
        "percentChangeColorMode": "standard",
        "reduceOptions": {"calcs": ["lastNotNull"], "fields": "", "values": False},
        "showPercentChange": False,
        "textMode": text,
        "wideLayout": True,
    }
    return panel("stat", title, about, queries, unit=unit, width=width, height=height, options=options, defaults=defaults, instant=not graph)


def ranking(title, about, query, *, unit="short", width=12, height=8):
    """Bars for the whole time that the dashboard shows, the longest first."""
    options = {
        "displayMode": "gradient",
        "legend": {"calcs": [], "displayMode": "list", "placement": "bottom", "showLegend": False},
        "maxVizHeight": 300,
        "minVizHeight": 16,
        "minVizWidth": 8,
        "namePlacement": "auto",
        "orientation": "horizontal",
        "reduceOptions": {"calcs": ["lastNotNull"], "fields": "", "values": False},
        "showUnfilled": True,
        "sizing": "auto",
        "valueMode": "color",
    }
    defaults = {"min": 0, "decimals": 0, "thresholds": thresholds((BLUE,))}
    return panel("bargauge", title, about, [query], unit=unit, width=width, height=height, options=options, defaults=defaults, instant=True)


def states(title, about, query, mapping, *, width=12, height=8):
    """Bands over time, in words."""
    options = {
        "alignValue": "left",
        "legend": {"displayMode": "list", "placement": "bottom", "showLegend": True, "calcs": []},
        "mergeValues": True,
        "rowHeight": 0.9,
        "showValue": "auto",
        "tooltip": {"mode": "single", "sort": "none"},
    }
    defaults = {"mappings": words(mapping), "thresholds": thresholds((GREEN,))}
    return panel("state-timeline", title, about, [query], unit="short", width=width, height=height, options=options, defaults=defaults, custom={"fillOpacity": 70, "lineWidth": 0})


def heat(title, about, metric, *, unit="s", width=12, height=8):
    options = {
        "calculate": False,
        "cellGap": 1,
        "color": {"exponent": 0.5, "fill": "dark-orange", "mode": "scheme", "reverse": False, "scale": "exponential", "scheme": "Oranges", "steps": 64},
        "exemplars": {"color": "rgba(255,0,255,0.7)"},
        "filterValues": {"le": 1e-9},
        "legend": {"show": True},
        "rowsFrame": {"layout": "auto"},
        "showValue": "never",
        "tooltip": {"mode": "single", "showColorScale": False, "yHistogram": False},
        "yAxis": {"axisPlacement": "left", "reverse": False, "unit": unit},
    }
    query = f"sum by (le) (increase({metric}_bucket{{{ENGINE}}}[$__rate_interval]))"
    return panel("heatmap", title, about, [(query, "{{le}}")], unit="short", width=width, height=height, options=options, form="heatmap")


def variable(name, label, metric):
    return {
        "type": "query",
        "name": name,
        "label": label,
        "datasource": SOURCE,
        "query": {"query": f"label_values({metric}, {name})", "refId": name},
        "refresh": 2,
        "sort": 1,
        "multi": True,
        "includeAll": True,
        "allValue": ".*",
        "current": {"text": ["All"], "value": ["$__all"]},
        "options": [],
    }


def annotation(name, color, query, **more):
    target = {"refId": "Anno", "expr": query, "interval": "15s"}
    return {"name": name, "datasource": SOURCE, "enable": True, "hide": False, "iconColor": color, "target": target, **more}


def dashboard(uid, title, about, rows, variables=()):
    """`rows`: name → panels, which flow from left to right."""
    panels, y = [], 0
    for name, of_row in rows.items():
        panels.append({"type": "row", "title": name, "collapsed": False, "gridPos": {"x": 0, "y": y, "w": WIDTH, "h": 1}, "panels": []})
        y, x, tallest = y + 1, 0, 0
        for one in of_row:
            place = one["gridPos"]
            if x + place["w"] > WIDTH:
                x, y, tallest = 0, y + tallest, 0
            place["x"], place["y"] = x, y
            x, tallest = x + place["w"], max(tallest, place["h"])
            panels.append(one)
        y += tallest
    for number, one in enumerate(panels, 1):
        one["id"] = number
    source = {"type": "datasource", "name": "datasource", "label": "Data source", "query": "prometheus", "refresh": 1, "options": [], "multi": False, "includeAll": False, "hide": 0, "regex": ""}
    return {
        "uid": f"offhook-{uid}",
        "title": f"offhook: {title}",
        "description": about,
        "tags": ["offhook"],
        "schemaVersion": 39,
        "editable": True,
        "graphTooltip": 1,
        "refresh": "10s",
        "time": {"from": "now-1h", "to": "now"},
        "timezone": "browser",
        "links": [{"type": "dashboards", "title": "offhook", "tags": ["offhook"], "asDropdown": False, "includeVars": True, "keepTime": True, "targetBlank": False, "icon": "dashboard", "tooltip": "", "url": ""}],
        "annotations": {
            "list": [
                annotation("Started", BLUE, f"process_start_time_seconds{{{ENGINE}}} * 1000", useValueForTime=True, titleFormat="offhook started"),
                annotation("Configuration", "purple", f'sum by (outcome) (increase(offhook_reloads_total{{{ENGINE}}}[30s])) > 0', titleFormat="configuration {{outcome}}"),
            ]
        },
        "templating": {"list": [source, variable("instance", "Engine", "offhook_build_info"), *variables]},
        "panels": panels,
    }


# What the dashboards say.

BAD = 'class=~"provider|asterisk|engine"'
BREAKER = {0: ("in use", GREEN), 1: ("one call tries it", YELLOW), 2: ("left alone", RED)}
WAITS = ((GREEN,), (1.5, YELLOW), (3, RED))

overview = dashboard(
    "overview",
    "overview",
    "Do callers get through, how do their calls go, and how do they end?",
    {
        "Now": [
            figure("Takes calls", "Whether a new call would be taken and answered well, as /ready says. Which part is missing stands below.",
                   f"min(offhook_ready{{{ENGINE}}})", unit="short", mapping={0: ("no", RED), 1: ("yes", GREEN)}),
            figure("Calls now", "Calls that are up.", f"sum(offhook_calls_active{{{ENGINE}}})", unit="short", graph=True),
            figure("Calls ended", "In the time shown.", total("offhook_calls_total"), unit="short", decimals=0),
            figure("Ended by a fault", "Share of the calls of the time shown that ended by a provider's, Asterisk's or the engine's doing. Why, stands below.",
                   f"{total('offhook_calls_total', where=ENGINE + ', ' + BAD)} / {total('offhook_calls_total')}",
                   unit="percentunit", decimals=1, steps=((GREEN,), (0.01, YELLOW), (0.05, RED))),
            figure("19 of 20 answers within", "From the caller's last sound to the first of the answer, in the time shown.",
                   quantile(0.95, "offhook_turn_latency_seconds", window="$__range"), unit="s", decimals=2, steps=WAITS),
            figure("Cost", "In the time shown, at the prices of the configuration, by currency. What has no price there is not in it.",
                   (total("offhook_cost_total", "currency"), "{{currency}}"), unit="short", decimals=2),
        ],
        "Calls": [
            over_time("Calls up", "How many calls run at once, and how many are allowed (limits.calls).",
                      (f"sum(offhook_calls_active{{{ENGINE}}})", "calls"), (f"sum(offhook_calls_limit{{{ENGINE}}})", "limit"), unit="short"),
            over_time("Ended calls, by whose doing", "normal: caller or agent. limit: a limit of the context. operator: you. The rest are faults; docs/endings.md has each reason.",
                      (rate("offhook_calls_total", "class", times=60), "{{class}}"), unit="cpm", stacked=True),
            ranking("Why calls ended", "Reasons in the time shown; docs/endings.md explains each.",
                    (f"sort_desc({total('offhook_calls_total', 'reason')} > 0)", "{{reason}}")),
            over_time("Callers given back to the dialplan", "full: limits.calls was reached. nocontext: the dialplan asks for an agent that is not configured. draining: offhook is being stopped.",
                      (rate("offhook_calls_declined_total", "status", times=60), "{{status}}"),
                      (rate("offhook_context_unknown_total", times=60), "unknown AI_CONTEXT"), unit="cpm", stacked=True),
            over_time("Transfers that failed", "back: the caller is with the agent again. lost: the place of the dialplan hung up on the caller; offhook calls --reason transfer_failed lists them.",
                      (rate("offhook_transfers_failed_total", "caller, reason", times=60), "{{caller}}: {{reason}}"), unit="cpm", stacked=True),
        ],
        "How it goes": [
            over_time("How long callers wait for an answer", "From the caller's last sound to the first of the answer. Above 1.5 s conversations drag; what makes them wait stands in Call quality.",
                      *quantiles("offhook_turn_latency_seconds"), unit="s", steps=WAITS),
            states("What a call needs", "ari: the connection with Asterisk. media: the listener for audio. providers: at least one is usable. accepting: not draining.",
                   (f"min by (check) (offhook_ready{{{ENGINE}}})", "{{check}}"), {0: ("missing", RED), 1: ("there", GREEN)}),
            states("Alerts", "Rules of grafana/prometheus/alerts.yml that hold. docs/operations.md has the remedies.",
                   ('max by (alertname, alertstate) (ALERTS{alertname=~"Offhook.*"})', "{{alertname}} ({{alertstate}})"), {1: ("holds", RED)}),
            over_time("Lost agents", "Sessions with a provider that broke or said nothing, and what became of the calls: took_over is a caller who kept talking.",
                      (rate("offhook_agent_losses_total", "loss", times=60), "lost: {{loss}}"),
                      (rate("offhook_session_recoveries_total", "outcome", times=60), "another: {{outcome}}"), unit="cpm"),
        ],
        "What runs": [
            figure("Version", "What is running.", (f"offhook_build_info{{{ENGINE}}}", "{{version}}"), unit="short", text="name", width=6),
            figure("Up for", "Since the last start.", (f"time() - process_start_time_seconds{{{ENGINE}}}", "{{instance}}"), unit="s", width=6, decimals=0),
            figure("Can be asked", "Whether Prometheus reaches the engine's /metrics.", ('up{job="offhook", instance=~"$instance"}', "{{instance}}"),
                   unit="short", width=6, mapping={0: ("no", RED), 1: ("yes", GREEN)}),
            figure("Log lines left out", "Warnings and errors that were not logged because the same line was repeating, in the time shown.",
                   total("offhook_log_lines_suppressed_total"), unit="short", width=6, decimals=0, steps=((GREEN,), (1, YELLOW))),
        ],
    },
)

quality = dashboard(
    "quality",
    "call quality",
    "Do callers wait, can they interrupt, is anything of the sound lost?",
    {
        "Do callers wait?": [
            over_time("Wait for an answer", "From the caller's last sound to the first of the answer.",
                      *quantiles("offhook_turn_latency_seconds", (0.5, 0.95, 0.99)), unit="s", steps=WAITS),
            heat("Wait for an answer, all turns", "Each column is a time, each row a wait: two bands are two kinds of turns, such as those with and without a tool.",
                 "offhook_turn_latency_seconds"),
            over_time("Where the wait comes from", "Means that add up. endpointing: until the turn counts as over (end_silence in docs/turn-taking.md). thinking: until the answer began. speaking: until its first sound. playout: until that left.",
                      (mean("offhook_turn_stage_seconds", "stage"), "{{stage}}"), unit="s", stacked=True),
            over_time("From the ringing to the first word", "Set-up: until audio can flow. Greeting: until its first frame left, a provider's connection included.",
                      (quantile(0.5, "offhook_setup_seconds"), "set-up, half of them"), (quantile(0.95, "offhook_setup_seconds"), "set-up, 19 of 20"),
                      (quantile(0.5, "offhook_first_audio_seconds"), "greeting, half of them"), (quantile(0.95, "offhook_first_audio_seconds"), "greeting, 19 of 20"), unit="s"),
            over_time("What the engine says itself", "filler and patience: an answer was late. apology: nobody was left to answer.",
                      (rate("offhook_sentences_total", "purpose", times=60), "{{purpose}}"), unit="cpm", stacked=True),
            over_time("Turns answered", "How many turns the figures above are made of.", (rate("offhook_turn_latency_seconds_count", times=60), "turns"), unit="cpm"),
        ],
        "Can callers interrupt?": [
            over_time("Interruption → agent silent", "From the decision that the caller interrupts to the first frame without the agent. One frame is 20 ms.",
                      *quantiles("offhook_barge_in_stop_seconds"), unit="s", steps=((GREEN,), (0.04, RED))),
            over_time("Interruptions and false alarms", "False alarms are heard as a short pause of the agent. Many of them: docs/turn-taking.md has the keys to turn.",
                      (rate("offhook_barge_in_stop_seconds_count", times=60), "interruptions"),
                      (rate("offhook_false_alarms_total", "why", times=60), "false alarm: {{why}}"),
                      (rate("offhook_half_duplex_total", times=60), "lines too loud to interrupt"), unit="cpm"),
        ],
        "Is sound lost?": [
            over_time("Slots missed", "Share of the 20 ms slots in which a frame was due and none left: callers hear a click. Above zero the machine is too slow or too busy.",
                      (f"{rate('offhook_slots_missed_total')} / {rate('offhook_tick_lateness_seconds_count')}", "missed"), unit="percentunit", steps=((GREEN,), (0.001, RED))),
            over_time("Clock", "How late the 20 ms clock of a call runs. Beyond 20 ms a slot is missed.",
                      *quantiles("offhook_tick_lateness_seconds", (0.5, 0.99)), unit="s", steps=((GREEN,), (0.02, RED))),
            over_time("Frames dropped", "interrupted and stale_response are what the caller did not want to hear any more. The others are losses: a socket or a provider that does not keep up.",
                      (rate("offhook_frames_dropped_total", "reason"), "{{reason}}"), (rate("offhook_provider_preroll_dropped_frames_total"), "provider not ready in time"), unit="cps"),
            over_time("From callers' phones", "Slots in which nothing came, and RTP packets missing. Some phones send nothing while they are silent; on a line that does not, it is the network.",
                      (rate("offhook_caller_gap_frames_total"), "nothing came"), (rate("offhook_media_rtp_packets_lost_total"), "RTP packets lost"),
                      (rate("offhook_media_rtp_packets_concealed_total"), "of them made up for"),
                      (rate("offhook_media_opus_packets_concealed_total"), "packets of Opus made up for"), unit="cps"),
            over_time("Opus", "Audio paths that were to carry it: of callers whose phones speak it, and of those who got samples in its place.",
                      (rate("offhook_media_opus_legs_total", "outcome"), "{{outcome}}"), unit="cps"),
            over_time("Thrown away at the socket", "Frames and packets in either direction, by cause. stranger and payload_type: somebody else sends to our ports, or Asterisk is configured otherwise.",
                      (rate("offhook_media_discarded_total", "cause"), "{{cause}}"), unit="cps"),
            over_time("Silence in place of sound", "Frames that a leg filled in by itself. start is usual; starved means that the call was late.",
                      (rate("offhook_media_filler_frames_total", "cause"), "{{cause}}"), unit="cps"),
            over_time("Frames", "50 a second for each call and direction.", (rate("offhook_media_frames_received_total", "transport"), "from callers, {{transport}}"),
                      (rate("offhook_media_frames_sent_total", "transport"), "to callers, {{transport}}"), unit="cps"),
            over_time("Cadence", "Jitter of callers' audio as it arrives from Asterisk; phones and networks make some milliseconds.",
                      *quantiles("offhook_media_jitter_seconds", (0.5, 0.95)), unit="s", steps=((GREEN,), (0.02, RED))),
            over_time("Packets that waited", "Of callers, which came together, the most in each second of each leg; and of agents, in Asterisk, by WebSocket. More than a few have waited in a network or in a busy machine.",
                      *quantiles("offhook_media_queue_frames", (0.5, 0.95)),
                      (quantile(0.95, "offhook_media_waiting_frames"), "in Asterisk, 19 of 20"), unit="short"),
            over_time("Clocks", "How far callers' clocks are from ours, in parts per million. 50 are usual; nothing is queued, so nothing has to be made good.",
                      *quantiles("offhook_media_drift_ppm", (0.5, 0.95)), unit="ppm"),
            over_time("Audio paths that broke", "And what became of them: repaired means that the call went on. docs/telephony.md has each fault with its remedy.",
                      (rate("offhook_media_faults_total", "fault", times=60), "fault: {{fault}}"),
                      (rate("offhook_media_repairs_total", "outcome", times=60), "{{outcome}}"),
                      (rate("offhook_media_suspect_total", "what", times=60), "suspect: {{what}}"), unit="cpm"),
            over_time("Until another path stands", "From the moment that a broken one is noticed.",
                      *quantiles("offhook_media_repair_seconds"), unit="s", steps=((GREEN,), (2, RED))),
            over_time("Connections refused, socket faults", "AudioSocket connections that became no call, and refusals of the operating system.",
                      (rate("offhook_media_connections_refused_total", "cause", times=60), "{{cause}}"),
                      (rate("offhook_media_socket_faults_total", "operation", times=60), "fault: {{operation}}"), unit="cpm"),
        ],
    },
)

providers = dashboard(
    "providers",
    "providers",
    "Who is ill, who is slow, what does it cost?",
    {
        "Who is ill?": [
            states("Providers", "The circuit breaker of each: after failures it is left alone for a while, and calls begin with a fallback (docs/outages.md).",
                   (f"max by (provider) (offhook_provider_breaker{{{PROVIDER}}})", "{{provider}}"), BREAKER),
            states("Services of pipelines", "The same for listeners, models and voices.",
                   (f"max by (service) (offhook_stage_breaker{{{ENGINE}}})", "{{service}}"), BREAKER),
            over_time("Agents lost, by why", "unauthorized: the key. quota: the account. throttled: too many sessions. unreachable, closed, stalled: the network or the vendor.",
                      (rate("offhook_agent_losses_total", "provider, loss", PROVIDER, 60), "{{provider}}: {{loss}}"), unit="cpm"),
            over_time("What became of those calls", "took_over: the caller kept talking. failed: another session was not to be had either.",
                      (rate("offhook_session_recoveries_total", "provider, outcome", PROVIDER, 60), "{{provider}}: {{outcome}}"), unit="cpm"),
            over_time("Dials that failed", "By kind of provider, whatever its name is in the configuration.",
                      (rate("offhook_provider_dials_total", "provider, outcome", ENGINE + ', outcome!="ready"', 60), "{{provider}}: {{outcome}}"), unit="cpm"),
            over_time("Passed over", "New calls that found their provider's breaker open: fallback, or tried_anyway for want of one.",
                      (rate("offhook_provider_passed_over_total", "provider, outcome", PROVIDER, 60), "{{provider}}: {{outcome}}"), unit="cpm"),
            over_time("Hand-overs before a vendor's limit", "Sessions begun because the last one was to be ended by its vendor.",
                      (rate("offhook_session_rollovers_total", "provider, outcome", PROVIDER, 60), "{{provider}}: {{outcome}}"), unit="cpm"),
            over_time("Oddities", "What sessions survived, by kind of provider. Steady ones: the vendor has changed its protocol.",
                      (rate("offhook_provider_noise_total", "provider, kind", times=60), "{{provider}}: {{kind}}"),
                      (rate("offhook_agent_odd_ids_total", "provider", PROVIDER, 60), "{{provider}}: id that nothing bears"), unit="cpm"),
            over_time("Answers asked for again", "Empty, soundless (audio in which there was nothing to hear), or broke_off after their first sound.",
                      (rate("offhook_agent_asked_again_total", "provider, answer", PROVIDER, 60), "{{provider}}: {{answer}}"), unit="cpm"),
        ],
        "Who is slow?": [
            over_time("Wait for an answer, 19 of 20", "From the caller's last sound to the first of the answer, by provider.",
                      (quantile(0.95, "offhook_turn_latency_seconds", "provider", PROVIDER), "{{provider}}"), unit="s", steps=WAITS),
            over_time("The provider's part of it", "Mean time until the answer began and until its first sound.",
                      (mean("offhook_turn_stage_seconds", "provider, stage", PROVIDER + ', stage=~"thinking|speaking"'), "{{provider}}: {{stage}}"), unit="s"),
            over_time("Services: first result, 19 of 20", "Of a listener from the end of the turn to its words, of a model to its first word, of a voice to its first sound.",
                      (quantile(0.95, "offhook_stage_first_result_seconds", "service"), "{{service}}"), unit="s"),
            over_time("Services: requests", "Every attempt, by outcome; docs/metrics.md explains them.",
                      (rate("offhook_stage_requests_total", "service, outcome", times=60), "{{service}}: {{outcome}}"), unit="cpm"),
            over_time("Services: oddities", "What went wrong and cost no session.",
                      (rate("offhook_stage_oddities_total", "service, oddity", times=60), "{{service}}: {{oddity}}"), unit="cpm"),
            over_time("Voices of the engine's own sentences", "ready: made before. late, slow, unreachable: a caller heard the recording in place of the sentence, or nothing of it.",
                      (rate("offhook_voice_sentences_total", "voice, outcome", times=60), "{{voice}}: {{outcome}}"), unit="cpm"),
        ],
        "What does it cost?": [
            figure("Cost of the time shown", "At the prices of the configuration; what has no price there is not in it.",
                   (total("offhook_cost_total", "currency", PROVIDER), "{{currency}}"), unit="short", width=6, height=8, decimals=2),
            figure("Cost of a call", "The same, divided by the calls that ended.",
                   (f"{total('offhook_cost_total', 'currency')} / scalar({total('offhook_calls_total')})", "{{currency}}"), unit="short", width=6, height=8, decimals=4),
            over_time("Cost of an hour", "At the rate of each moment.", (rate("offhook_cost_total", "provider, currency", PROVIDER, 3600), "{{provider}}, {{currency}}"), unit="short"),
            over_time("Tokens", "As the providers report them. input_cached is a part of the input kinds.",
                      (rate("offhook_tokens_total", "provider, kind", PROVIDER, 60), "{{provider}}: {{kind}}"), unit="cpm"),
            over_time("Sessions connected", "Sessions at once, by our own clock: several vendors bill connected minutes.",
                      (rate("offhook_connected_seconds_total", "provider", PROVIDER), "{{provider}}"), unit="short"),
        ],
    },
    [variable("provider", "Provider", "offhook_connected_seconds_total")],
)

tools = dashboard(
    "tools",
    "tools and MCP",
    "What do agents do, what is refused, which server is ill?",
    {
        "Tools": [
            ranking("Calls by tool", "In the time shown, whatever became of them.", (f"sort_desc({total('offhook_tool_calls_total', 'tool')} > 0)", "{{tool}}")),
            ranking("What became of them", "In the time shown; docs/tool-calls.md explains each.", (f"sort_desc({total('offhook_tool_calls_total', 'outcome')} > 0)", "{{outcome}}")),
            over_time("Tools that failed", "timeout, transient, permanent: what the tool needs. validation, not_found: the model called it wrongly.",
                      (rate("offhook_tool_calls_total", "tool, outcome", ENGINE + ', outcome=~"timeout|transient|permanent|rate_limit|internal|conflict|auth|validation|not_found|session_inactive"', 60), "{{tool}}: {{outcome}}"), unit="cpm"),
            over_time("Held by the gate", "Calls that did not run, or not yet: asked back, put off, refused, over a budget, going round in circles.",
                      (rate("offhook_tool_calls_total", "outcome", ENGINE + ', outcome=~"confirmation_required|deferred|refused|mode_restricted|budget_exceeded|loop_detected"', 60), "{{outcome}}"), unit="cpm", stacked=True),
            over_time("Requests to your services", "Of declarative tools, retries included in one.",
                      (rate("offhook_tool_http_requests_total", "outcome", times=60), "{{outcome}}"), (rate("offhook_tool_http_retries_total", times=60), "retries"), unit="cpm"),
            over_time("Mail after the call", "Messages and transcripts. What is dropped is lost.",
                      (rate("offhook_mail_sent_total", times=60), "sent"), (rate("offhook_mail_retries_total", times=60), "tried again"),
                      (rate("offhook_mail_dropped_total", "cause", times=60), "dropped: {{cause}}"), unit="cpm"),
        ],
        "MCP servers": [
            states("Servers", "Whether each can be asked. Why not, says /mcp/status.",
                   (f"min by (server) (ai_agent_mcp_server_up{{{ENGINE}}})", "{{server}}"), {0: ("down", RED), 1: ("up", GREEN)}),
            over_time("Restarts", "A server that ended by itself or could not be reached is started again.",
                      (rate("ai_agent_mcp_server_restarts_total", "server", times=60), "{{server}}"), unit="cpm"),
            over_time("Calls of their tools", "unavailable: the server was down. rejected: the server refused. timeout: it took longer than it may.",
                      (rate("ai_agent_mcp_tool_calls_total", "server, tool, status", times=60), "{{server}}.{{tool}}: {{status}}"), unit="cpm"),
            over_time("How long they take, 19 of 20", "Callers hear a sentence meanwhile after 1.3 s.",
                      (quantile(0.95, "ai_agent_mcp_tool_latency_seconds", "server, tool"), "{{server}}.{{tool}}"), unit="s"),
        ],
        "VAM: action servers and sessions": [
            over_time("Registered", "Action servers that offhook knows; whether each can be asked is shown among the MCP servers.",
                      (f"sum by (instance) (offhook_vam_action_servers{{{ENGINE}}})", "{{instance}}"), unit="short"),
            over_time("Registrations", "in_part: a tool was refused. The answer to the server and the log say why.",
                      (rate("offhook_vam_registrations_total", "result", times=60), "{{result}}"), unit="cpm"),
            over_time("Not let through", "Actions that vam.residency keeps callers' words from; requests without a token, and with one that was not looked at after too many wrong ones; connections beyond vam.limits.connections.",
                      (rate("offhook_vam_actions_denied_total", times=60), "denied"),
                      (rate("offhook_vam_unauthenticated_total", times=60), "no token"),
                      (rate("offhook_vam_guesses_refused_total", times=60), "too many wrong tokens"),
                      (rate("offhook_vam_connections_shown_out_total", times=60), "connections without a token, for others"),
                      (rate("offhook_vam_connections_waited_total", times=60), "connections that waited"), unit="cpm"),
            over_time("Sessions", "Conversations of VAM clients.",
                      (f"sum by (instance) (offhook_vam_sessions{{{ENGINE}}})", "{{instance}}"), unit="short"),
            over_time("Lost of sessions", "Streams whose client did not read; their audio that came too fast; results nobody waited for; clients that came and asked nothing.",
                      (rate("offhook_vam_sessions_forgotten_total", times=60), "sessions without a stream"),
                      (rate("offhook_vam_connections_unasked_total", times=60), "connections without a request"),
                      (rate("offhook_vam_streams_stuck_total", times=60), "streams"),
                      (rate("offhook_vam_flushes_cut_total", times=60), "ends of sessions"),
                      (rate("offhook_vam_streams_unreadable_total", times=60), "streams with what is no message"),
                      (rate("offhook_vam_streams_silent_total", times=60), "streams without a message"),
                      (rate("offhook_vam_messages_empty_total", times=60), "messages without a content"),
                      (rate("offhook_vam_actions_too_many_total", times=60), "actions beyond the most"),
                      (rate("offhook_vam_frames_dropped_total", times=60), "frames"),
                      (rate("offhook_vam_results_dropped_total", times=60), "results"),
                      (rate("offhook_vam_actions_timed_out_total", times=60), "actions timed out"), unit="cpm"),
            over_time("Until an action has left", "From the agent's wish to the request to the client; the specification allows 50 ms.",
                      *quantiles("offhook_vam_action_emission_seconds", (0.5, 0.99)), unit="s"),
        ],
    },
)

PER_CALL = f"sum(rate(process_cpu_seconds_total{{{ENGINE}}}[$__rate_interval])) / (sum(avg_over_time(offhook_calls_active{{{ENGINE}}}[$__rate_interval])) > 0)"
capacity = dashboard(
    "capacity",
    "capacity",
    "How much is left, and what runs out first?",
    {
        "How much is left?": [
            figure("Calls now, of the limit", "limits.calls; the caller beyond it goes back to the dialplan.",
                   f"sum(offhook_calls_active{{{ENGINE}}}) / sum(offhook_calls_limit{{{ENGINE}}})", unit="percentunit", decimals=0, steps=((GREEN,), (0.7, YELLOW), (0.9, RED))),
            figure("Most at once", "In the time shown.", f"sum(max_over_time(offhook_calls_active{{{ENGINE}}}[$__range]))", unit="short"),
            figure("Turned away", "Calls given back because the limit was reached, in the time shown.",
                   total("offhook_calls_declined_total", where=ENGINE + ', status="full"'), unit="short", decimals=0, steps=((GREEN,), (1, RED))),
            figure("Processors", "Time used, of what the engine may use.",
                   f"sum(rate(process_cpu_seconds_total{{{ENGINE}}}[$__rate_interval])) / sum(offhook_processors{{{ENGINE}}})", unit="percentunit", decimals=0, graph=True, steps=((GREEN,), (0.6, YELLOW), (0.8, RED))),
            figure("Processor of a call", "Share of one processor, everything that the engine does divided by the calls that are up. Programs that it starts are not in it.",
                   PER_CALL, unit="percentunit", decimals=2, graph=True),
            figure("Room by processors", "Calls that 70 % of the processors would carry at that cost: a straight line, and no promise. With a handful of calls it says little.",
                   f"0.7 * sum(offhook_processors{{{ENGINE}}}) / ({PER_CALL})", unit="short", decimals=0, graph=True),
        ],
        "The machine": [
            over_time("Calls and the limit", "How close the line comes.", (f"sum by (instance) (offhook_calls_active{{{ENGINE}}})", "{{instance}}"),
                      (f"sum by (instance) (offhook_calls_limit{{{ENGINE}}})", "{{instance}}: limit"), unit="short"),
            over_time("Processor time", "Of what the engine may use. Programs that it starts (voices, MCP servers) are not in it.",
                      (f"sum by (instance) (rate(process_cpu_seconds_total{{{ENGINE}}}[$__rate_interval])) / sum by (instance) (offhook_processors{{{ENGINE}}})", "{{instance}}"),
                      unit="percentunit", top=1, steps=((GREEN,), (0.8, RED))),
            over_time("Clock, 99 of 100", "How late the 20 ms clock of a call runs: the first thing that overload touches.",
                      (quantile(0.99, "offhook_tick_lateness_seconds", "instance"), "{{instance}}"), unit="s", steps=((GREEN,), (0.02, RED))),
            over_time("Memory", "In RAM.", (f"process_resident_memory_bytes{{{ENGINE}}}", "{{instance}}"), unit="bytes"),
            over_time("Open files", "Sockets and files, of what the operating system allows (LimitNOFILE, ulimit -n).",
                      (f"process_open_fds{{{ENGINE}}} / process_max_fds{{{ENGINE}}}", "{{instance}}"), unit="percentunit", top=1, steps=((GREEN,), (0.8, RED))),
            over_time("Held open", "What calls hold, and the engine's tasks; without calls they come back to where they were.",
                      (f"sum by (kind) (offhook_media_open{{{ENGINE}}})", "{{kind}}"), (f"sum(offhook_tasks{{{ENGINE}}})", "tasks"), unit="short"),
        ],
        "Asterisk": [
            over_time("Connection lost", "Ends of the events socket and failed attempts, by reason.",
                      (rate("offhook_ari_reconnects_total", "reason", times=60), "{{reason}}"), unit="cpm"),
            over_time("Requests and events", "What Asterisk is asked for, and the events of it that matter to a call.",
                      (rate("offhook_ari_requests_total", "operation", times=60), "{{operation}}"), (rate("offhook_ari_events_total", "event", times=60), "{{event}}"),
                      unit="cpm"),
            over_time("Requests that failed", "ARI requests that did not do what was asked.",
                      (rate("offhook_ari_requests_failed_total", "operation", times=60), "{{operation}}"), unit="cpm"),
            over_time("Queues that were full, and what was left over", "Overflows, events that could not be read, clean-ups that Asterisk did not finish, and telephones that are forwarded without end.",
                      (rate("offhook_ari_overflow_total", "queue", times=60), "full: {{queue}}"), (rate("offhook_ari_events_malformed_total", times=60), "events not read"),
                      (rate("offhook_ari_orphans_removed_total", "kind", times=60), "left over: {{kind}}"), (rate("offhook_ari_teardown_overrun_total", times=60), "clean-up not finished"),
                      (rate("offhook_ari_forwards_refused_total", times=60), "forwarded without end"), unit="cpm"),
            over_time("Callers who were connected on", "Callers with a destination that was dialled for them; they are Asterisk's, offhook watches.",
                      (f"sum(offhook_ari_handed_on{{{ENGINE}}})", "connected"), unit="short"),
        ],
        "Records": [
            over_time("Waiting for the archive", "Records in the spool, and in memory where its disk is full. A line that climbs: the database is slow, full or locked (docs/records.md). Clock in doubt, 1: it is far ahead, and nothing is deleted for its age.",
                      (f"sum by (instance) (offhook_records_waiting{{{ENGINE}}})", "{{instance}}"),
                      (f"sum by (instance) (offhook_records_clock_doubted{{{ENGINE}}})", "clock in doubt: {{instance}}"), unit="short"),
            over_time("Taken, expired, lost", "What became of records; lost ones cannot be had again. A beginning that is lost costs a record only if the engine is killed.",
                      (rate("offhook_records_total", times=60), "taken"), (rate("offhook_records_expired_total", times=60), "expired"),
                      (rate("offhook_records_retries_total", "step", times=60), "tried again: {{step}}"), (rate("offhook_records_lost_total", "why", times=60), "lost: {{why}}"),
                      (rate("offhook_record_beginnings_lost_total", "why", times=60), "beginnings lost: {{why}}"), unit="cpm"),
        ],
        "Recordings": [
            over_time("Being written", "Recordings of running calls, and parts of them, of a second each, that wait for the disk. A second line that climbs: the disk is too slow.",
                      (f"sum(offhook_recording_files{{{ENGINE}}})", "recordings"), (f"sum(offhook_recording_parts_waiting{{{ENGINE}}})", "parts that wait"), unit="short"),
            over_time("Onto the disk", "Bytes of recordings.", (rate("offhook_recording_bytes_total"), "written"), unit="Bps"),
            over_time("Finished, expired", "Recordings whose calls have ended, and how: whole, with silence where sound was lost, or deleted because the caller did not want it; and those that were too old.",
                      (rate("offhook_recordings_total", "outcome", times=60), "{{outcome}}"), (rate("offhook_recordings_expired_total", times=60), "expired"), unit="cpm"),
            over_time("Sound lost", "Seconds of calls per minute that are silent in their recordings (docs/records.md).",
                      (rate("offhook_recording_lost_seconds_total", "why", times=60), "{{why}}"), unit="short"),
        ],
        "Page": [
            over_time("Who is there", "Browsers that are logged in, and connections that watch calls live.",
                      (f"sum(offhook_page_sessions{{{ENGINE}}})", "logged in"), (f"sum(offhook_page_watchers{{{ENGINE}}})", "watching"), unit="short"),
            over_time("Listeners cut off", "Operators who listened to a call over a connection that was too slow.",
                      (rate("offhook_listeners_dropped_total", times=60), "cut off"), unit="cpm"),
            over_time("Attempts to log in", "Many that are refused or limited: somebody guesses passwords.",
                      (rate("offhook_logins_total", "outcome", times=60), "{{outcome}}"), unit="cpm"),
            over_time("Attempts to publish a configuration", "Conflicts: two edit at once. Failed: the file could not be written.",
                      (rate("offhook_configuration_publications_total", "outcome", times=60), "{{outcome}}"), unit="cpm"),
        ],
    },
)


def main():
    stale = False
    for one in (overview, quality, providers, tools, capacity):
        file = HERE / (one["uid"].removeprefix("offhook-") + ".json")
        fresh = json.dumps(one, indent=2, ensure_ascii=False) + "\n"
        if sys.argv[1:] == ["--check"]:
            if not file.exists() or file.read_text() != fresh:
                print(f"{file} is stale: grafana/generate.py writes it anew", file=sys.stderr)
                stale = True
        else:
            file.write_text(fresh)
    return int(stale)


if __name__ == "__main__":
    sys.exit(main())

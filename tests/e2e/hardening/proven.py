"""Cases that need more than a table: floods, time, memory, TLS, the admin listener, reloads and calls of real clients. Other tests
prove them; `./dev conformance` runs those and writes their results into the page."""

from hardening.attack import Proven

CALM = "GOAWAY ENHANCE_YOUR_CALM, close; memory flat, another client is served"


def attack(name, sends, expected, *tests, **kwargs):
    return Proven(name, sends, expected, tuple(f"http2_attack.{each}" for each in tests), **kwargs)


def proven(name, sends, expected, *tests, **kwargs):
    return Proven(name, sends, expected, tests, **kwargs)


EARLY_RESPONSES = [
    proven("EARLY-413", "40 MB to a limit of 32 MiB, with `http.client`, Node and Go", "413 arrives at every client",
           "early_answers.EarlyAnswers.test_a_body_over_the_limit_gets_its_413", "early_answers.EarlyAnswers.test_node_sees_its_answers",
           "early_answers.EarlyAnswers.test_go_sees_its_answers"),
    proven("EARLY-429", "5 MB to a server that answers 429 at once, with `http.client`, Node and Go", "429 arrives at every client",
           "early_answers.EarlyAnswers.test_a_backends_early_answer_arrives", "early_answers.EarlyAnswers.test_node_sees_its_answers",
           "early_answers.EarlyAnswers.test_go_sees_its_answers"),
    proven("EARLY-BOUND", "more than `limits.linger` or `timeouts.linger` after the answer", "the connection is closed",
           "early_answers.EarlyAnswers.test_the_file_bounds_what_is_read"),
    proven("EARLY-LINK", "a server that answers before it has read the request", "its connection is not used again",
           "transparency.Connections.test_a_link_whose_request_was_not_read_to_its_end_is_not_used_again"),
    proven("EARLY-CHUNKED", "a chunked upload that is answered early", "the rest is read, and the client's connection kept",
           "early_answers.EarlyAnswers.test_a_chunked_upload_keeps_its_connection"),
    proven("EARLY-EXPECT", "`Expect: 100-continue`", "100 once a server reads the body; a final answer closes instead",
           "transparency.Requests.test_expect_100_continue_is_answered_so_that_the_client_goes_on",
           "wire:Http1Frontend.ClosesAfterAFinalResponseInsteadOfContinue"),
]

FLOODS = [
    attack("H2-SETTINGS-FLOOD", "SETTINGS", CALM, "Floods.test_settings", "Floods.test_settings_with_unread_acknowledgements",
           "Floods.test_settings_that_change_the_windows_of_many_streams"),
    attack("H2-SETTINGS-MANY-ENTRIES", "one SETTINGS of 2000 entries", CALM, "Floods.test_a_settings_frame_of_many_entries"),
    attack("H2-PING-FLOOD", "PING", CALM, "Floods.test_pings"),
    attack("H2-OUTBOUND-GROWTH", "PING or SETTINGS, and never reads the acknowledgements", "close; memory flat",
           "Floods.test_pings_with_unread_acknowledgements", "Floods.test_settings_with_unread_acknowledgements"),
    attack("H2-CONTINUATION-FLOOD", "endless CONTINUATION, also empty", "close; nothing forwarded", "Floods.test_continuations",
           "Floods.test_empty_continuations"),
    attack("H2-EMPTY-DATA-FLOOD", "empty DATA", CALM, "Floods.test_empty_data"),
    attack("H2-PADDING-FLOOD", "DATA of padding only", "limited by the windows as a body is", "Floods.test_data_with_only_padding"),
    proven("H2-OVERHEAD", "frames with next to no payload", "GOAWAY ENHANCE_YOUR_CALM when frame headers / 8 > payload + 1 MiB",
           "wire:Http2GuardTest.FramesWithoutPayloadAreLimited", "wire:Http2GuardTest.SmallMessagesAreNotAFlood"),
    attack("H2-PRIORITY-FLOOD", "PRIORITY", CALM, "Floods.test_priorities", "Floods.test_priorities_of_many_idle_streams"),
    attack("H2-UNKNOWN-FLOOD", "frames of an unknown type", CALM, "Floods.test_frames_of_an_unknown_type"),
    attack("H2-PRIORITY-UPDATE-FLOOD", "PRIORITY_UPDATE", CALM, "Floods.test_priority_updates"),
    attack("H2-WINDOW-UPDATE-FLOOD", "WINDOW_UPDATE of 1", CALM, "Floods.test_connection_window_updates_by_one",
           "Floods.test_stream_window_updates_by_one"),
    attack("H2-GOAWAY-FLOOD", "GOAWAY", "close", "Floods.test_goaways"),
    attack("H2-RST-CLOSED-FLOOD", "RST_STREAM of a closed stream", "GOAWAY, close", "Floods.test_resets_of_closed_streams"),
    attack("H2-SETTINGS-NO-ACK", "no acknowledgement of our SETTINGS", "GOAWAY SETTINGS_TIMEOUT after 10 s",
           "Held.test_settings_that_are_never_acknowledged"),
]

RESETS = [
    attack("H2-RAPID-RESET", "20 000 HEADERS with RST_STREAM (CVE-2023-44487)", "at most 1100 reach the server; " + CALM,
           "Resets.test_a_rapid_reset_is_calmed"),
    attack("H2-RAPID-RESET-LEGITIMATE", "50 calls a second, cancelled after their first message", "the connection stays",
           "Legitimate.test_fifty_calls_a_second_cancelled_after_their_first_message"),
    *[attack(f"H2-MADE-YOU-RESET-{name}", f"{sends}, 4000 times (CVE-2025-8671)", "at most 228 reach the server; GOAWAY, close",
             f"Resets.test_made_you_reset_by_{test}") for name, sends, test in (
        ("WINDOW-0", "WINDOW_UPDATE of 0", "an_empty_window_update"),
        ("WINDOW-OVERFLOW", "WINDOW_UPDATE beyond 2^31-1", "a_window_that_overflows"),
        ("PRIORITY-LENGTH", "4 bytes of PRIORITY", "a_priority_of_the_wrong_length"),
        ("PRIORITY-SELF", "a stream that depends on itself", "a_stream_that_depends_on_itself"),
        ("HEADERS-AFTER-END", "HEADERS after END_STREAM", "headers_after_the_end"),
        ("DATA-AFTER-END", "DATA after END_STREAM", "data_after_the_end"),
        ("CL-SHORT", "less than the content-length", "less_than_the_content_length"),
        ("CL-LONG", "more than the content-length", "more_than_the_content_length"),
        ("BAD-TRAILERS", "pseudo fields in trailers", "bad_trailers"),
        ("TRAILERS-NOT-END", "trailers without END_STREAM", "trailers_without_end_stream"),
        ("MALFORMED", "malformed requests", "malformed_requests"))],
    attack("H2-STREAMS-OVER-LIMIT", "more streams than 128", "RST_STREAM REFUSED_STREAM, then GOAWAY; never dispatched",
           "Resets.test_streams_over_the_limit_are_refused_until_the_client_knows_it",
           "Resets.test_streams_over_a_known_limit_are_never_dispatched"),
]

MEMORY = [
    attack("H2-HPACK-BOMB", "a field of 4 KB, repeated 11 000 times by its index", "431 or the connection ends; memory flat",
           "Bombs.test_a_large_field_a_thousand_times", "Bombs.test_almost_empty_fields"),
    attack("H2-COOKIE-BOMB", "11 000 `cookie` fields of one byte each", "431 or the connection ends; memory flat", "Bombs.test_split_cookies"),
    attack("H2-HPACK-IN-SYNC", "a request after a refused header list, with its table entry", "200",
           "Bombs.test_the_connection_remains_usable_after_a_bomb"),
    attack("H2-WINDOW-HELD", "100 requests for 10 MB with closed windows", "RST_STREAM after `timeouts.write`; memory flat",
           "Held.test_windows_that_never_open"),
    attack("H2-WINDOW-DRIBBLE", "a window that opens by one byte at a time", "served; memory flat", "Held.test_windows_that_open_a_byte_at_a_time"),
    attack("H2-NEVER-READ", "100 requests for 10 MB, and never reads", "close after `timeouts.write`; memory flat",
           "Held.test_responses_that_are_never_read"),
    attack("H2-DATA-BEYOND-WINDOW", "DATA beyond the window", "FLOW_CONTROL_ERROR", "Framing.test_more_data_than_the_windows"),
    attack("H2-STREAMS-INDEPENDENT", "one stream that is not read, others that are", "the others are served",
           "Held.test_a_blocked_stream_does_not_block_others"),
]

GOAWAYS = [
    attack("H2-CLIENT-GOAWAY", "GOAWAY from the client with a request in flight", "its response is complete",
           "Goaways.test_requests_before_a_client_goaway_are_answered"),
    attack("H2-STREAMS-AFTER-GOAWAY", "streams after our last GOAWAY", "ignored", "Goaways.test_a_drain_closes_in_two_steps_and_answers_accepted_requests",
           "Goaways.test_frames_after_a_goaway_for_abuse_change_nothing"),
    attack("H2-PING-AFTER-GOAWAY", "PING during the drain", "acknowledged",
           "Goaways.test_a_drain_closes_in_two_steps_and_answers_accepted_requests"),
]

HTTP2_SERVERS = [Proven(f"H2-UP-{name}", sends, expected, tuple(f"http2_backend.{each}" for each in tests)) for name, sends, expected, tests in (
    ("RST-NO-ERROR", "a complete response and RST_STREAM NO_ERROR during the upload", "the response is delivered",
     ["Disconnects.test_a_no_error_reset_after_a_response_stops_only_the_upload"]),
    ("GOAWAY-BEFORE", "GOAWAY that names no stream", "the request goes to another server", [
        "Refusing.test_a_goaway_that_names_no_stream", "Refusing.test_a_goaway_and_a_close_that_name_no_stream"]),
    ("GOAWAY-AFTER", "GOAWAY that names streams in flight", "they finish", ["Refusing.test_a_goaway_lets_older_streams_finish"]),
    ("REFUSED-STREAM", "RST_STREAM REFUSED_STREAM", "the request goes to another server", ["Refusing.test_a_refused_stream"]),
    ("MAX-STREAMS-LOWERED", "a lower MAX_CONCURRENT_STREAMS", "kept from then on", ["Sharing.test_a_lowered_limit_applies_from_then_on"]),
    ("MAX-STREAMS-0", "MAX_CONCURRENT_STREAMS = 0", "another server; an error within the timeout without one", [
        "Refusing.test_a_backend_that_allows_no_streams",
        "Refusing.test_only_backends_that_allow_no_streams_is_an_error_within_the_timeout"]),
    ("1XX", "interim responses", "they pass; 16 at most", ["Sharing.test_interim_responses_pass", "Disconnects.test_endless_interim_responses"]),
    ("TRAILERS-NOT-END", "trailers without END_STREAM", "RST_STREAM to the client",
     ["Disconnects.test_trailers_without_end_stream"]),
    ("TRAILERS-PSEUDO", "`:status` in trailers", "RST_STREAM to the client", ["Disconnects.test_trailers_with_pseudo_fields"]),
    ("CL-MISMATCH", "less or more than its content-length", "RST_STREAM to the client", [
        "Disconnects.test_less_than_the_content_length", "Disconnects.test_more_than_the_content_length"]),
    ("HEADER-LIST", "oversized and endless header lists", "502; memory flat", [
        "Disconnects.test_an_oversized_header_list", "Disconnects.test_a_bomb_of_indexed_fields", "Disconnects.test_endless_continuations"]),
    ("FLOODS", "endless SETTINGS, PING, WINDOW_UPDATE, empty DATA, unknown frames", "502 or RST_STREAM; the connection is closed", [
        "Disconnects.test_endless_settings", "Disconnects.test_endless_pings", "Disconnects.test_endless_window_updates",
        "Disconnects.test_endless_empty_data", "Disconnects.test_endless_unknown_frames"]),
    ("MALFORMED", "no or invalid `:status`, capitals, CR and LF, connection fields", "502", [
        "Disconnects.test_no_status", "Disconnects.test_an_invalid_status", "Disconnects.test_names_in_capitals",
        "Disconnects.test_values_with_line_breaks", "Disconnects.test_connection_fields"]),
    ("PUSH", "PUSH_PROMISE", "502; the connection is closed", ["Disconnects.test_a_push"]),
    ("TRUNCATED", "a reset, close or GOAWAY within a response", "RST_STREAM to the client", [
        "Disconnects.test_a_reset_mid_response", "Disconnects.test_a_close_mid_response",
        "Disconnects.test_a_goaway_and_a_close_mid_response"]),
    ("DEAD", "a connection that goes silent", "found by a PING after 10 s; no further request on it", [
        "Keepalive.test_a_slow_backend_is_kept_and_a_dead_one_is_detected"]),
)]

SLOW = [
    proven("SLOW-HEAD", "a head byte by byte, cleartext and TLS", "408 at `timeouts.header` after its first byte, and close within a second",
           "bounds.SlowClients.test_a_head_that_comes_byte_by_byte_has_one_deadline"),
    attack("SLOW-HEAD-H2", "half a preface, half SETTINGS, HEADERS without end, byte by byte", "close at `timeouts.header`",
           "Held.test_half_a_preface", "Held.test_a_preface_byte_by_byte", "Held.test_a_preface_and_half_a_settings_frame",
           "Held.test_headers_that_never_end", "Held.test_headers_byte_by_byte"),
    proven("SLOW-BODY-STALL", "a body that stalls, over HTTP/1.1 and HTTP/2", "408 after `timeouts.body`; the server's side is aborted; close within a second",
           "bounds.SlowClients.test_a_client_that_goes_on_slowly_after_its_408_does_not_hold_its_connection",
           "errors.Errors.test_a_body_that_stalls", "http2_attack.Held.test_a_body_that_stalls"),
    proven("SLOW-BODY-RATE", "1 byte of a body a second, over HTTP/1.1 and HTTP/2",
           "408 below `limits.body_rate` after 10 s; an upload that a server holds up is spared",
           "overload.SlowUploads.test_a_client_that_drips_gets_408_and_one_that_is_held_back_does_not"),
    proven("SLOW-READ-BUDGET", "128 streams of one connection, of which none is read, by their windows or at the socket; servers of HTTP/1.1 and HTTP/2",
           "they share `limits.response_buffer` beyond 16 KiB each; each goes on when it is read, and all bytes arrive",
           "unread_responses.UnreadResponses",
           "wire:Http1Link.ReadsLargeResponsesInSmallPiecesWhenItsClientsConnectionHasSpentItsBudget",
           "wire:Http2LinkTest.WidensTheWindowsOfAClientsResponsesWhileItsConnectionHasABudget"),
    proven("SLOW-READ", "a response that is not read", "the server is held back; close after `timeouts.write`; memory flat",
           "lifecycle.ClientTimeouts.test_not_reading_the_response",
           "streaming.Streaming.test_a_client_that_reads_nothing_stops_its_backend_and_no_other",
           "endurance.Memory.test_slow_readers_cost_a_buffer_each_and_block_no_others"),
    proven("SLOW-NOTHING", "a connection on which nothing comes", "close at `timeouts.header`",
           "bounds.SlowClients.test_a_connection_on_which_nothing_comes_is_closed"),
    proven("SLOW-HANDSHAKE", "half a TLS handshake", "close at `timeouts.handshake`; others are served",
           "tls.UnexpectedConnections.test_a_stalled_handshake_times_out_and_delays_no_other"),
    proven("IDLE-10000", "idle connections", "a few KiB each", "endurance.Memory.test_idle_clients_cost_next_to_nothing"),
    proven("CONNECTION-LIMIT", "more connections than `limits.max_connections`",
           "the one that is idle longest, on any worker, makes room, of a client with more than its share first; while none is idle, new ones wait",
           "overload.MaxConnections.test_the_connection_that_is_idle_longest_makes_room_on_whichever_worker",
           "overload.LargeClient.test_its_idle_connections_make_room_first",
           "overload.LargeClient.test_a_new_one_of_it_takes_the_place_of_none_of_others",
           "overload.MaxConnections.test_while_none_is_idle_new_connections_wait_until_one_ends",
           "overload.MaxConnections.test_a_connection_that_ends_is_replaced_at_once",
           "tls.UnexpectedConnections.test_silent_connections_are_evicted_for_active_ones"),
    proven("MEMORY-LIMIT", "more memory in use than `limits.memory`, or than there is",
           "idle connections close, new ones wait, then requests get 503; an allocation that fails ends the process",
           "overload.Memory.test_near_the_limit_idle_connections_go_new_ones_wait_and_requests_are_refused",
           "overload.Memory.test_an_allocation_that_fails_ends_the_process_and_the_unit_starts_the_next"),
    proven("FD-EXHAUSTION", "as many connections as there are descriptors", "idle ones make room; no spinning; recovery",
           "endurance.Descriptors.test_when_descriptors_run_out_idle_clients_make_room",
           "endurance.Descriptors.test_a_lack_of_descriptors_does_not_make_the_listeners_spin",
           "endurance.Descriptors.test_when_all_descriptors_are_busy_it_recovers_afterwards"),
    proven("PIPELINE-1000", "1000 pipelined requests", "processed one at a time, answered in order",
           "bounds.Bounds.test_pipelined_requests_are_processed_one_at_a_time"),
    proven("SSE-GIANT-LINE", "100 MB without a line break in a stream of events", "streamed; memory flat",
           "bounds.Bounds.test_a_line_of_100_megabytes_in_a_stream_of_events_is_not_held"),
    proven("UPLOAD-SLOW-BACKEND", "50 MB to a server that stops reading", "the client is held back; memory flat",
           "matrix.H1ClearFrontH1ClearBack.test_fifty_megabytes_up_arrive_whole",
           "matrix.H2ClearFrontH1ClearBack.test_fifty_megabytes_up_arrive_whole"),
    proven("DECOMPRESSION", "a gzip bomb in a request and a response", "passes as it is",
           "bounds.Bounds.test_compressed_bodies_pass_as_they_are"),
    proven("HALF-CLOSE", "shutdown of the sending side after a request",
           "waits for the response by default; `half_close: abort` counts it as a departure",
           "disconnect.ClientDisconnects.test_half_close_mid_stream",
           "disconnect.ClientDisconnects.test_half_close_wait_answers_half_closed_clients",
           deviation="the default is the other way round, as in HAProxy since 3.3: a departed client looks the same on the wire, and its"
           " generation would go on; `half_close: wait` waits"),
    proven("CLIENT-RESET", "a reset in the middle of a generation", "the server's side is closed within 50 ms",
           "disconnect.ClientDisconnects.test_reset_mid_stream", "abort_delay"),
    proven("ROUTE-MATCHING", "paths made to take long", "no regular expressions: a path is matched once, segment by segment",
           "routes.Routes.test_by_path", "routes.Routes.test_a_path_cannot_be_disguised"),
    proven("LOG-INJECTION", "line breaks, quotes and control characters", "escaped in the access log",
           "access_log.AccessLog.test_hostile_input_cannot_break_a_line_nor_forge_another"),
    proven("METRICS-CARDINALITY", "ever new paths, hosts, methods and models", "no new series",
           "bounds.Bounds.test_clients_cannot_add_series_to_the_metrics"),
]


def tls(name, sends, expected, *tests, **kwargs):
    return Proven(name, sends, expected, tests, **kwargs)


TLS = [
    tls("TLS-VERSIONS", "TLS 1.0, 1.1, 1.2, 1.3", "1.0 and 1.1 refused; 1.2 and 1.3 served",
        "tls.Policies.test_old_versions_are_refused_and_new_ones_accepted", "tls.Policies.test_the_minimum_version_can_be_raised"),
    tls("TLS-CIPHERS", "suites without forward secrecy or AEAD", "refused", "tls.Policies.test_only_forward_secret_aead_suites_are_accepted"),
    tls("TLS-RENEGOTIATION", "renegotiation", "refused", "tls.Policies.test_renegotiation_is_refused"),
    tls("TLS-ALPN", "ALPN h2, http/1.1, none, unknown", "h2; http/1.1; HTTP by its first bytes; no_application_protocol",
        "tls.Policies.test_alpn_is_negotiated_and_unknown_protocols_are_refused"),
    tls("TLS-SNI", "no SNI, an unknown name, a wildcard", "the matching certificate, else the first",
        "tls.Policies.test_the_certificate_is_chosen_by_name"),
    tls("TLS-SNI-HOST", "a `Host` different from the SNI", "routed by `Host`; a listener has one policy for client certificates",
        "tls.Policies.test_a_request_is_routed_by_its_host_whatever_the_server_name"),
    tls("TLS-CLIENT-CERTIFICATE", "no certificate, of an unknown authority, expired", "refused in the handshake",
        "tls.ClientCertificates.test_client_certificates_are_required_verified_and_forwarded",
        "tls.ClientCertificates.test_an_expired_client_certificate_is_refused"),
    tls("TLS-CLIENT-REVOKED", "a revoked client certificate", "refused in the handshake, with `client_crl`",
        "tls.ClientCertificates.test_a_revoked_client_certificate_is_refused_from_the_next_reload_on"),
    tls("TLS-RESUMPTION-POLICY", "a session of another listener or name (CVE-2025-23419)", "a new handshake with its checks",
        "tls.Tickets.test_sessions_are_not_shared_between_policies", "tls.Tickets.test_sessions_are_resumed_only_for_their_name"),
    tls("TLS-EARLY-DATA", "0-RTT data", "not offered", "tls.Tickets.test_no_early_data_is_offered"),
    tls("TLS-TICKETS-RELOAD", "a ticket from before a reload", "resumed", "reload_files.Certificates.test_earlier_tickets_remain_valid"),
    tls("TLS-TRUNCATED-UPLOAD", "a close without close_notify within a body", "the server's side is aborted",
        "tls.Truncation.test_an_upload_without_its_end_is_aborted"),
    tls("TLS-TRUNCATED-RESPONSE", "a response that ends with its connection, without close_notify", "the client sees that it was cut off",
        "tls.Truncation.test_a_response_without_close_notify_is_cut_off"),
    tls("TLS-CLEARTEXT", "HTTP in cleartext to a TLS port", "400 that says so",
        "tls.UnexpectedConnections.test_plain_http_on_a_tls_port_gets_an_explanation"),
    tls("TLS-HANDSHAKE-FLOOD", "many stalled handshakes", "evicted for active connections",
        "tls.UnexpectedConnections.test_silent_connections_are_evicted_for_active_ones"),
    tls("TLS-RELOAD-BAD-KEY", "a reload with a key of another certificate", "refused; the old certificate stays",
        "reload_files.Certificates.test_new_certificates_apply_to_new_handshakes_and_bad_ones_are_rejected"),
    tls("TLS-UP-VERIFY", "a server with a wrong name, an unknown authority, an expired certificate", "502 `tls_failed` with the reason",
        "tls.Backends.test_the_backend_certificate_is_verified"),
    tls("TLS-UP-PLAINTEXT", "cleartext before the ServerHello (CVE-2026-1642)", "502; the bytes are never a response",
        "tls.Backends.test_a_cleartext_backend_is_refused", "tls.Truncation.test_cleartext_before_the_servers_hello_is_no_response"),
]

ADMIN = [
    proven("ADMIN-ADDRESS", "the default address", "127.0.0.1; changes from elsewhere need a token",
           "admin:Authorization.RemoteChangesNeedAToken", "admin:Authorization.EmptyOrMissingTokenFileRefusesChanges",
           deviation="`admin.address: 0.0.0.0` is taken without a further flag: it is written out in the file, and changes need the token"),
    proven("ADMIN-SEPARATE", "requests for /metrics and /api at a client listener", "they go to a server",
           "admin.Admin.test_the_admin_is_not_to_be_had_where_clients_connect"),
    proven("ADMIN-HOST-ORIGIN", "another `Host` or `Origin` (DNS rebinding, CSRF)", "403",
           "admin.Admin.test_foreign_hosts_and_origins_learn_nothing", "admin:Authorization.RefusesChangesFromPagesOfOtherSites"),
    proven("ADMIN-POST", "a change by GET", "405", "admin:AdminApi.ChangesRequirePostAndReadsRejectIt"),
    proven("ADMIN-SECRETS", "every page of the admin API, with keys and tokens in the file", "none of them appears",
           "admin.Secrets.test_no_page_shows_keys_or_tokens"),
    proven("ADMIN-SCRAPE", "ten scrapers in a loop, 1000 backends", "no request, check or poll is delayed",
           "scrape.Scrape.test_ten_scrapers_in_a_loop_disturb_neither_requests_nor_checks_nor_polls"),
    proven("ADMIN-SLOW", "slow, oversized, malformed and 10 000 connections", "requests and checks go on",
           "admin_attack.AdminUnderAttack.test_neither_requests_nor_checks_notice"),
]

RELOADS = [
    proven("R-1", "reloads under load", "no failed request", "reload.UnderLoad.test_a_hundred_reloads_lose_no_request_and_no_state"),
    proven("R-2", "an invalid file", "the old configuration stays", "reload_files.BadFiles"),
    proven("R-3", "a stream open across 20 reloads", "complete, byte for byte",
           "reload.UnderLoad.test_a_stream_and_a_connection_outlive_twenty_reloads"),
    proven("R-4", "a backend removed within a stream", "the stream finishes; no new picks",
           "reload.ChangedBackends.test_a_removed_backend_finishes_and_gets_nothing_new"),
    proven("R-5", "a backend added, and added again", "checked first; a kept backend keeps its state",
           "reload.ChangedBackends.test_an_added_backend_gets_requests_after_its_first_check",
           "dns.Addresses.test_a_backend_keeps_its_state_when_other_addresses_come_and_go"),
    proven("R-6", "listeners added and removed", "opened before the old ones close", "reload_files.Listeners.test_a_listener_is_added_and_removed",
           "reload_files.Listeners.test_new_connections_see_no_gap_while_listeners_change"),
    proven("R-7", "another certificate", "new handshakes get it",
           "reload_files.Certificates.test_new_certificates_apply_to_new_handshakes_and_bad_ones_are_rejected"),
    proven("R-8", "a storm of SIGHUP", "coalesced; the newest file wins", "reload.UnderLoad.test_many_signals_at_once"),
    proven("R-9", "HTTP/2 across a reload and a drain", "no GOAWAY for a reload; two steps in a drain, and streams in flight are read",
           "reload.UnderLoad.test_a_stream_and_a_connection_outlive_twenty_reloads",
           "http2_attack.Goaways.test_a_drain_closes_in_two_steps_and_answers_accepted_requests"),
    proven("R-10", "SIGTERM, and a second one", "readiness fails first, requests finish by the deadline, exit code 0; the second exits at once",
           "lifecycle.Drain"),
    proven("R-11", "hundreds of reloads", "memory does not grow", "reload.UnderLoad.test_memory_does_not_grow"),
    proven("R-12", "requests longer than the drain deadline", "cut off", "lifecycle.Drain.test_the_drain_deadline_cuts_off_the_rest"),
    proven("R-13", "reloads during checks, polls and DNS queries", "they continue", "reload.UnderLoad.test_polls_and_checks_continue",
           "dns.Addresses.test_a_name_that_flaps_loses_no_request"),
    proven("R-14", "a file that is half written, missing, or a pipe", "refused; the old configuration stays",
           "reload_files.BadFiles.test_mistakes_are_reported", "reload_files.BadFiles.test_a_missing_or_non_regular_file",
           "reload_files.BadFiles.test_a_pipe_in_place_of_the_file_does_not_block"),
]

GRPC = [
    proven("GRPC-BIDI", "bidirectional streams", "each message passes at once",
           "grpc_python.Grpc.test_a_bidirectional_stream_in_which_each_message_waits_for_the_previous_one"),
    proven("GRPC-LARGE", "messages of 20 MB", "they pass", "grpc_python.Grpc.test_messages_of_20_mb"),
    proven("GRPC-CLIENT-CANCEL", "a cancelled call", "ends at the server at once",
           "grpc_python.Grpc.test_a_cancelled_call_ends_at_the_server_at_once"),
    proven("GRPC-DEADLINE-PASSED-ON", "a deadline", "reaches the server, less what has passed, and ends the call at both ends",
           "grpc_python.Grpc.test_a_deadline_reaches_the_server_and_ends_the_call_at_both_ends", "proxy:GrpcChain.SubtractsQueueTimeFromTheDeadline"),
    proven("GRPC-MAX-AGE", "servers that close their connections by GOAWAY", "no call is lost",
           "http2_backend.Refusing.test_a_goaway_lets_older_streams_finish", "http2_backend.Refusing.test_a_goaway_that_names_no_stream"),
    proven("GRPC-KEEPALIVE", "a call that takes long", "PING at most every 10 s, and only with calls in flight",
           "wire:Http2LinkTest.DoesNotAnnoyAGrpcServerThatTakesLong", "grpc_python.Grpc.test_keepalive_pings_of_a_waiting_client_are_allowed"),
    proven("GRPC-DRAIN", "a drain with calls in flight", "no call is lost", "grpc_python.Grpc.test_a_drain_loses_no_call"),
    proven("GRPC-STATUS-MESSAGE", "a status message that is not ASCII", "percent-encoded",
           "grpc_python.Grpc.test_a_status_message_that_is_not_ascii", "http:GrpcMessage.RoundTrips"),
]

WEBSOCKETS = [
    proven("WS-H2-AHEAD", "a request of HTTP/1.1 as DATA of an extended CONNECT, which the server refuses", "it does not reach the server",
           "websockets_http2.Handshake.test_what_was_sent_ahead_of_a_refusal_is_no_request"),
    proven("WS-H2-ACCEPT", "a 101 whose `Sec-WebSocket-Accept` or `Upgrade` is wrong, from the server", "502; its connection is closed",
           "websockets_http2.Handshake.test_a_wrong_accept_is_a_broken_backend", "wire:Http1Link.ChecksTheAnswerToAnUpgrade"),
    proven("WS-H2-NO-TUNNEL", "a 200 from the server, also to a client that says it calls gRPC", "501, no failure of the server",
           "websockets_http2.Handshake.test_an_answer_without_a_tunnel_is_no_success"),
    proven("WS-H2-FIELDS", "malformed pseudo-fields, targets, lengths and connection fields in an extended CONNECT",
           "RST_STREAM PROTOCOL_ERROR, 400 or 501; nothing forwarded",
           "websockets_http2.Handshake.test_the_fields_are_checked_as_those_of_any_request",
           "wire:Http2RequestHead.ChecksAnExtendedConnectAsAnyRequest"),
    proven("WS-H2-TRAILERS", "trailers in a tunnel", "RST_STREAM PROTOCOL_ERROR; counted as a provoked reset",
           "websockets_http2.Ends.test_trailers_do_not_belong_in_a_tunnel",
           "websockets_http2.Ends.test_tunnels_that_are_reset_for_their_trailers_are_counted"),
    proven("WS-H2-STALLED", "a tunnel of which one side does not read", "the other side is held back; memory flat",
           "websockets_http2.FlowControl"),
    proven("WS-H2-IDLE", "a tunnel in which neither side sends", "RST_STREAM CANCEL after `timeouts.idle` of the pool",
           "websockets_http2.Ends.test_a_tunnel_that_both_sides_leave_idle_ends"),
]

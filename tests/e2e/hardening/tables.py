"""All tables of the conformance page, in its order."""

from hardening import grpc_calls, http1_requests, http1_responses, http2_requests, http_garden

# (module of the bench, title, attacks)
TABLES = [
    ("http1_requests", "Content-Length and Transfer-Encoding together", http1_requests.FRAMING_CONFLICTS),
    ("http1_requests", "Content-Length", http1_requests.CONTENT_LENGTH),
    ("http1_requests", "Transfer-Encoding", http1_requests.TRANSFER_ENCODING),
    ("http1_requests", "Chunks", http1_requests.CHUNKS),
    ("http1_requests", "Trailers", http1_requests.TRAILERS),
    ("http1_requests", "Start lines", http1_requests.START_LINES),
    ("http1_requests", "Fields", http1_requests.FIELDS),
    ("http1_requests", "Host", http1_requests.HOST),
    ("http1_requests", "Methods", http1_requests.METHODS),
    ("http1_requests", "Bodies", http1_requests.BODIES + http1_requests.EARLY),
    ("http1_requests", "Upgrades and connection fields", http1_requests.UPGRADES),
    ("http1_requests", "HTTP Garden: servers", http_garden.SERVERS),
    ("http1_requests", "HTTP Garden: proxies", http_garden.PROXIES),
    ("http1_responses", "Response heads", http1_responses.HEADS),
    ("http1_responses", "Response bodies", http1_responses.BODIES),
    ("http1_responses", "Complete responses", http1_responses.COMPLETE),
    ("http2_requests", "SETTINGS and PING", http2_requests.SETTINGS_CASES),
    ("http2_requests", "Streams", http2_requests.STREAMS),
    ("http2_requests", "Windows", http2_requests.WINDOWS),
    ("http2_requests", "Header blocks", http2_requests.HEADER_BLOCKS + http2_requests.LARGE),
    ("http2_requests", "Malformed requests", http2_requests.MALFORMED),
    ("http2_requests", "Translation to HTTP/1.1", http2_requests.DOWNGRADE + http2_requests.LEGITIMATE),
    ("grpc_calls", "How calls end", grpc_calls.CALLS),
]


def of(bench):
    return [attack for module, _, attacks in TABLES if module == bench for attack in attacks]

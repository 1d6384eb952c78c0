#include "evenkeel/base/fault_table.h"

namespace evenkeel {
namespace {

using enum Fault;

/// All faults, in the order of the enum.
constexpr std::array<FaultEntry, fault_count> entries = {{
    {.fault = bad_request,
     .word = "bad_request",
     .side = "client",
     .meaning = "The request is malformed HTTP or JSON, or names no model where routes go by it.",
     .cause = "A hand-made client, a wrong content type, a proxy in front that rewrites bodies, a "
              "missing `model`.",
     .cure = "The message names the byte or the field. [What names a "
             "model](routing.md#requests-that-no-route-takes)."},
    {.fault = uri_too_long,
     .word = "uri_too_long",
     .side = "client",
     .meaning = "The request target is longer than `limits.uri` of the listener.",
     .cause = "Parameters in the query that belong in the body.",
     .cure = "Move them into the body, or raise [`limits.uri`](security.md#requests)."},
    {.fault = header_too_large,
     .word = "header_too_large",
     .side = "client",
     .meaning = "The head of the request is larger than `limits.header`, or has more than "
                "`limits.header_fields` fields.",
     .cause = "Large cookies or tokens.",
     .cure =
         "Send fewer, or raise the limit that the message names ([limits](security.md#requests))."},
    {.fault = body_too_large,
     .word = "body_too_large",
     .side = "client",
     .meaning = "The body is larger than `limits.body` of the listener, or than half of "
                "`limits.held_bodies` where it has to be held.",
     .cause = "Long prompts, images or audio in the body.",
     .cure = "Raise the limit that the message names ([limits](security.md#requests))."},
    {.fault = header_timeout,
     .word = "header_timeout",
     .side = "client",
     .meaning =
         "The head of the request was not complete within `timeouts.header` of the listener.",
     .cause = "A slow or broken network, a client that opens connections and sends nothing more.",
     .cure = "None at the server, unless honest clients are that slow: raise `timeouts.header`."},
    {.fault = body_timeout,
     .word = "body_timeout",
     .side = "client",
     .meaning = "The client paused for `timeouts.body` within its upload, was slower than "
                "`limits.body_rate`, or its upload held room that others needed.",
     .cause = "A slow network, a client that hangs.",
     .cure = "The message names the [limit](security.md#requests); raise it if honest clients are "
             "that slow."},
    {.fault = expectation_failed,
     .word = "expectation_failed",
     .side = "client",
     .meaning = "The request has an `expect` other than `100-continue`.",
     .cause = "An unusual client.",
     .cure = "Send the request without that field."},
    {.fault = method_not_allowed,
     .word = "method_not_allowed",
     .side = "client",
     .meaning = "Routes with this path take other methods, or the method is CONNECT or TRACE, "
                "which none takes.",
     .cause = "A client that uses GET for POST; `match.method` of a route.",
     .cure = "The answer's `allow` lists the methods; compare them with `match.method` of the "
             "[routes](routing.md#routes)."},
    {.fault = not_implemented,
     .word = "not_implemented",
     .side = "client",
     .meaning = "A transfer coding or a `:protocol` that evenkeel does not serve.",
     .cause =
         "A client of another protocol; an extended CONNECT for something other than WebSockets.",
     .cure = "Use `chunked` or a length; [WebSockets](routing.md#websockets) alone are tunnelled."},
    {.fault = version_not_supported,
     .word = "version_not_supported",
     .side = "client",
     .meaning = "An HTTP version other than 1.0, 1.1 and 2.",
     .cause = "A client of another protocol on this port.",
     .cure = "Check the client's address and protocol."},
    {.fault = unauthorized,
     .word = "unauthorized",
     .side = "client",
     .meaning = "The route wants an API key, and the request has none, or none that counts.",
     .cause = "A client without a key, a key that was revoked or has expired, a key of another "
              "server, a client certificate that names no tenant.",
     .cure = "The message says whether a key was missing, unknown or expired; `evenkeel key list "
             "--file F` lists those that count, and `evenkeel key create` makes one "
             "([API keys](security.md#api-keys))."},
    {.fault = model_not_allowed,
     .word = "model_not_allowed",
     .side = "client",
     .meaning =
         "The API key, or its tenant, is for some models only, and the request names another "
         "one, or none.",
     .cause = "`models` of the tenant or of the key; a request that names no model.",
     .cure = "`GET /v1/models` lists what the key is for; add the model to `tenants[].models`, or "
             "create a key with other `--models` "
             "([which models a key is for](security.md#which-models-a-key-is-for))."},
    {.fault = tenant_not_allowed,
     .word = "tenant_not_allowed",
     .side = "client",
     .meaning = "The tenant may use some routes or methods only, and the request has another one.",
     .cause = "`routes` or `methods` of the tenant.",
     .cure = "Add the route or the method to `tenants[].routes` or `tenants[].methods` "
             "([which routes a tenant may use](security.md#which-routes-a-tenant-may-use))."},
    {.fault = no_route,
     .word = "no_route",
     .side = "client",
     .meaning = "No route has this host, path, header or task.",
     .cause = "A wrong base URL (a missing or double `/v1`), a host that the file does not list.",
     .cure = "The message says what was looked up; compare it with `evenkeel config print -c FILE` "
             "([routes](routing.md#routes))."},
    {.fault = model_not_found,
     .word = "model_not_found",
     .side = "client",
     .meaning = "No route takes the model that the request names.",
     .cause = "A misspelt name, or a model that only the backends know.",
     .cure = "`GET /v1/models` lists the names, and the message near ones; add the name to "
             "`match.model` ([models](routing.md#the-name-of-the-model))."},
    {.fault = session_lost,
     .word = "session_lost",
     .side = "backend",
     .meaning =
         "The request goes on from an id that only one backend knows, and that backend is gone.",
     .cause = "A backend with stored responses or sequences was restarted or removed.",
     .cure = "Begin a new conversation; drain such backends before you stop them "
             "([ids](balancing.md#ids-that-servers-hand-out))."},
    {.fault = no_backend,
     .word = "no_backend",
     .side = "backend",
     .meaning = "No backend of the pool may get the request.",
     .cause = "All are down, starting, ejected or drained; a wrong address or health check.",
     .cure = "The message says why, and WHY in `evenkeel ctl backends` for each backend "
             "([states](reliability.md#states)); a [`fallback`](reliability.md#fallback) serves "
             "meanwhile."},
    {.fault = queue_full,
     .word = "queue_full",
     .side = "proxy",
     .meaning = "All slots of the pool are taken and its queue is full, or the request would miss "
                "its SLO by more than [`shed`](expected-time.md#slos) allows.",
     .cause = "More load than the backends can take.",
     .cure = "More backends, or [standby](balancing.md#standby-backends) ones; "
             "`limits.max_in_flight`, `limits.queue.size`; clients repeat after `retry-after` "
             "([requests wait](observability.md#requests-wait))."},
    {.fault = queue_timeout,
     .word = "queue_timeout",
     .side = "proxy",
     .meaning = "The request waited for a slot for `limits.queue.timeout`.",
     .cause = "More load than the backends can take, or one that is slow.",
     .cure = "As for `queue_full`; a longer `limits.queue.timeout` for clients that can wait "
             "([requests wait](observability.md#requests-wait))."},
    {.fault = connect_failed,
     .word = "connect_failed",
     .side = "backend",
     .meaning = "The backend refuses connections, or cannot be reached.",
     .cause = "The server has crashed, is starting, or listens elsewhere.",
     .cure = "`evenkeel ctl backends` shows which; start the server, or correct its address."},
    {.fault = connect_timeout,
     .word = "connect_timeout",
     .side = "backend",
     .meaning = "The connection to the backend was not made within `timeouts.connect`.",
     .cause = "A host that is down, a firewall that drops packets, a full backlog.",
     .cure = "`nc -vz HOST PORT` from this machine; the network; `timeouts.connect`."},
    {.fault = tls_failed,
     .word = "tls_failed",
     .side = "backend",
     .meaning = "The TLS handshake with the backend failed.",
     .cause = "A certificate of an unknown authority, for another name, or out of date; a server "
              "without TLS.",
     .cure = "The message says which; `tls: {ca: ..., server_name: ...}` of the pool ([TLS to "
             "backends](security.md#tls))."},
    {.fault = first_byte_timeout,
     .word = "first_byte_timeout",
     .side = "backend",
     .meaning = "The backend sent no output within `timeouts.first_byte`, or within 20 s while its "
                "checks fail too.",
     .cause = "A long queue in the engine, a very long prompt, a server that hangs.",
     .cure = "WAIT and KV in `evenkeel ctl backends`; `limits.max_in_flight`; a longer "
             "`timeouts.first_byte` ([a backend is slow](observability.md#a-backend-is-slow))."},
    {.fault = idle_timeout,
     .word = "idle_timeout",
     .side = "backend",
     .meaning = "The backend paused for `timeouts.idle` within its response, which broke off.",
     .cause = "A server that hangs, or that shuts down without ending its streams.",
     .cure = "The backend's log at that time; `timeouts.idle` if the model pauses for that long "
             "([timeouts](reliability.md#timeouts))."},
    {.fault = deadline_exceeded,
     .word = "deadline_exceeded",
     .side = "backend",
     .meaning = "The deadline of a gRPC call (`grpc-timeout`) has passed.",
     .cause = "A deadline that is too short for the model or the load.",
     .cure = "A longer deadline in the client; `wait_ms` and `backend_ms` in the access log say "
             "where the time went."},
    {.fault = backend_closed,
     .word = "backend_closed",
     .side = "backend",
     .meaning = "The backend closed the connection before its answer was complete.",
     .cause = "It crashed, was restarted, ran out of memory, or closes idle connections sooner "
              "than `keep_alive.idle`.",
     .cure = "The backend's log at that time; [`retry`](reliability.md#retries) with `on: [reset]` "
             "if repeating a generation is acceptable."},
    {.fault = backend_protocol,
     .word = "backend_protocol",
     .side = "backend",
     .meaning = "The backend sent what is not valid HTTP or gRPC.",
     .cause = "A port of another protocol; HTTP/1.1 spoken to a server of HTTP/2 alone.",
     .cure = "The message says what; `protocol: h2` for servers of gRPC, `https://` for those with "
             "TLS ([gRPC](routing.md#grpc))."},
    {.fault = stream_error,
     .word = "stream_error",
     .side = "backend",
     .meaning = "The backend reported an error within a stream of status 200.",
     .cause = "An engine that failed while it generated: its worker died, memory ran out.",
     .cure = "The backend's log at that time ([streams that "
             "break](reliability.md#streams-that-break))."},
    {.fault = server_error,
     .word = "server_error",
     .side = "backend",
     .meaning = "An attempt was answered with a 5xx that another attempt replaced. Only an "
                "`outcome` of attempts, never the `reason` of a request.",
     .cause = "A backend that fails some requests.",
     .cure = "ERRORS and WHY in `evenkeel ctl backends`; the backend's log."},
    {.fault = overloaded,
     .word = "overloaded",
     .side = "proxy",
     .meaning = "As the `reason` of a request: no file descriptor or local port was left for a "
                "connection. As the `outcome` of an attempt: the backend answered 429 or 503, and "
                "another attempt replaced that.",
     .cause =
         "Too low a limit of descriptors, very many short connections; a backend at its limit.",
     .cure = "`LimitNOFILE=`, `net.ipv4.ip_local_port_range` "
             "([overload](reliability.md#overload)); more backends."},
    {.fault = client_gone,
     .word = "client_gone",
     .side = "client",
     .meaning = "The client left before the end of the response; evenkeel cancelled the request at "
                "the backend.",
     .cause = "A timeout of the client or of a proxy in front, a user who pressed stop.",
     .cure = "Nothing, if it is rare; else compare `duration_ms` with the timeouts of the clients "
             "and of what is between."},
    {.fault = rate_limited,
     .word = "rate_limited",
     .side = "client",
     .meaning = "The tenant has reached a limit of requests or tokens per second, minute or hour, "
                "or of requests at a time.",
     .cause = "More traffic of the tenant than `tenants[].limits` allows; a loop of retries.",
     .cure = "The message names the limit and when to try again, the answer's `x-ratelimit-*` what "
             "is left ([limits](security.md#limits-of-tenants))."},
    {.fault = quota_exceeded,
     .word = "quota_exceeded",
     .side = "client",
     .meaning = "The tenant has used up its amount of the day or month.",
     .cause = "More use than `tenants[].limits` allows for the day or month.",
     .cure = "Wait until the day or month is over (UTC), or raise the "
             "[limit](security.md#limits-of-tenants)."},
    {.fault = over_budget,
     .word = "over_budget",
     .side = "proxy",
     .meaning = "The pool has used up its `budget`, and no other pool took the request.",
     .cause = "More use than `pools[].budget` allows for the period.",
     .cure = "Wait until the period is over, raise the budget, or give the pool a "
             "[`fallback`](reliability.md#fallback)."},
    {.fault = flood,
     .word = "flood",
     .side = "client",
     .meaning =
         "The client flooded its connection with HTTP/2 frames, and the connection was ended.",
     .cause = "An attack, or a broken client.",
     .cure = "Block the address if it comes again ([what one client can "
             "take](security.md#what-one-client-can-take))."},
    {.fault = write_timeout,
     .word = "write_timeout",
     .side = "client",
     .meaning = "The client read nothing of its response for `timeouts.write` of the listener.",
     .cause = "A client that hangs, a network that is gone.",
     .cure = "Nothing, if it is rare; a longer `timeouts.write` for clients that pause."},
    {.fault = draining,
     .word = "draining",
     .side = "proxy",
     .meaning = "The request was cut when `shutdown.drain` had passed.",
     .cause = "A restart or stop while long responses were running.",
     .cure = "A longer `shutdown.drain`, or an [upgrade](operations.md#upgrading-the-binary), "
             "which lets them finish."},
    {.fault = out_of_memory,
     .word = "out_of_memory",
     .side = "proxy",
     .meaning = "The request was refused because memory is scarce.",
     .cause = "Many large bodies at once, a `limits.memory` that is too low.",
     .cure = "`limits.memory`, `limits.held_bodies` ([memory](security.md#memory))."},
    {.fault = internal,
     .word = "internal",
     .side = "proxy",
     .meaning = "evenkeel itself has failed.",
     .cause = "A fault in evenkeel.",
     .cure = "Report it, with the daemon's log."},
}};

/// True if each fault has its place in the table, and each entry its texts.
constexpr bool is_complete() {
  for (int at = 0; at < fault_count; ++at) {
    const FaultEntry& entry = entries[static_cast<std::size_t>(at)];
    if (static_cast<int>(entry.fault) != at || *entry.word == '\0' || entry.side.empty())
      return false;
    if (entry.meaning.empty() || entry.cause.empty() || entry.cure.empty()) return false;
  }
  return true;
}
static_assert(is_complete(), "a fault lacks its entry, or the order differs from that of Fault");

}  // namespace

const std::array<FaultEntry, fault_count>& fault_table() { return entries; }

const FaultEntry& entry_of(Fault fault) { return entries[static_cast<std::size_t>(fault)]; }

const char* to_string(Fault fault) { return entry_of(fault).word; }

}  // namespace evenkeel

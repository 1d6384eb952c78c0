#pragma once

#include <chrono>
#include <string_view>

#include "config/compound_forms.h"
#include "config/forms.h"

// The part of the field table (fields.h) for listeners and the admin listener.
namespace evenkeel::config_file {

using namespace std::chrono_literals;

void each_key(Of<CertificateConfig>, const auto& visit) {
  using T = CertificateConfig;
  visit(Key{"cert", "PEM file with the certificate chain.", required}, &T::cert, file_path);
  visit(Key{"key", "PEM file with the private key, without a passphrase.", required}, &T::key,
        file_path);
}

void each_key(Of<ListenerTlsConfig>, const auto& visit) {
  using T = ListenerTlsConfig;
  visit(Key{"certificates",
            "One per name or group of names (such as `*.example.com`), selected by the client's "
            "SNI; the first is the default.",
            "none: `self_signed`"},
        &T::certificates,
        ListForm<StructForm<CertificateConfig>>{{}, "a list of certificates", false});
  visit(Key{"self_signed",
            "Whether the certificate is made at the start, in place of `certificates`: for "
            "clients that verify none, as data planes do with endpoint pickers."},
        &T::self_signed, FlagForm{});
  visit(Key{"client_ca",
            "PEM file with the authorities that verify client certificates. `listeners` forward "
            "them in x-forwarded-client-cert.",
            "no client certificates"},
        &T::client_ca, file_path);
  visit(Key{"client_crl",
            "PEM file with revocation lists (CRLs) for client certificates, one of every authority "
            "in their chains, the root included. Certificates of an authority whose list is "
            "missing or out of date are refused, too. Connections that are open when a reload "
            "reads a new list stay open. Only with `client_ca`.",
            "nothing is revoked"},
        &T::client_crl, file_path);
  visit(Key{"client_auth",
            "Whether a client certificate is mandatory (`require`) or optional (`request`); a "
            "certificate that is sent must be valid in either case. Only with `client_ca`."},
        &T::client_auth, EnumForm<ClientAuth>{"client_auth", {"require", "request"}});
  visit(Key{"min_version", "The oldest TLS version that is accepted."}, &T::min_version,
        EnumForm<TlsVersion>{"min_version", {"1.2", "1.3"}});
}

inline void finish(Of<ListenerTlsConfig>, Node& node, ListenerTlsConfig& tls) {
  if (!tls.self_signed && !node.has("certificates")) {
    node.fail_missing(node.path() + ".certificates", "missing key 'certificates'");
  } else if (tls.self_signed && node.has("certificates")) {
    node.fail("'self_signed' has no effect beside 'certificates'", "remove one of them");
  }
  if (tls.client_auth == ClientAuth::request && tls.client_ca.empty()) {
    node.fail("'client_auth' has no effect without 'client_ca'",
              "add client_ca: FILE, with the authorities that verify client certificates");
  }
  if (!tls.client_crl.empty() && tls.client_ca.empty()) {
    node.fail("'client_crl' has no effect without 'client_ca'",
              "add client_ca: FILE, with the authorities that verify client certificates");
  }
}

void each_key(Of<ListenerTimeouts>, const auto& visit) {
  using T = ListenerTimeouts;
  visit(Key{"header",
            "Maximum time from the first byte of a request to the end of its head; then 408."},
        &T::header, DurationForm{});
  visit(Key{"idle",
            "Maximum idle time between requests; then the connection is closed. Before the first "
            "request, `header` applies."},
        &T::idle, DurationForm{});
  visit(Key{"body",
            "Maximum pause within a request body; then 408. Not for gRPC calls on routes with "
            "`match.grpc`, since streams may pause."},
        &T::body, DurationForm{});
  visit(Key{"write",
            "Maximum time without progress in sending a response to the client; then the "
            "connection is closed."},
        &T::write, DurationForm{});
  visit(Key{"linger",
            "How long the rest of a request that was answered before its end is read and discarded "
            "before its connection is closed, or its HTTP/2 stream reset, so that the client sees "
            "the response; at most 5 s without a byte."},
        &T::linger, DurationForm{});
  visit(Key{"handshake", "Maximum time for the TLS handshake; then the connection is closed."},
        &T::handshake, DurationForm{});
}

void each_key(Of<ListenerLimits>, const auto& visit) {
  using T = ListenerLimits;
  visit(Key{"header", "Maximum size of a request head including the request line; 431 beyond."},
        &T::header_bytes, SizeForm{KiB, 64 * KiB});
  visit(Key{"header_fields", "Maximum number of header fields in a request; 431 beyond."},
        &T::header_fields, CountForm{1, 10'000});
  visit(Key{"uri", "Maximum length of the request target; 414 beyond."}, &T::uri_bytes,
        SizeForm{64, 64 * KiB});
  visit(Key{"body",
            "Maximum size of a request body; 413 beyond. Not for gRPC calls on routes with "
            "`match.grpc`, since streams may be endless."},
        &T::body_bytes, SizeForm{0, TiB});
  visit(Key{"body_rate",
            "Minimum rate, per second, at which a request body must arrive, after 10 s of waiting "
            "for it; 408 below. Time during which evenkeel does not read does not count. 0B: no "
            "minimum. Not for gRPC calls on routes with `match.grpc`."},
        &T::body_rate_bytes, SizeForm{0, 1024 * MiB});
  visit(Key{"linger",
            "How much of a request that was answered before its end is read and discarded before "
            "its connection is closed, or its HTTP/2 stream reset."},
        &T::linger_bytes, SizeForm{0, TiB});
  visit(
      Key{"response_buffer",
          "What the responses on one client connection may hold in all while the client reads "
          "slowly, beyond 16 KiB for each of them. Beyond it, further responses are read from "
          "their backends in pieces of 16 KiB. A response of an HTTP/2 backend takes 64 KiB of it "
          "while it comes faster than 16 KiB in 250 ms, and gives it back when it has been slower "
          "for 5 s and its client has read 48 KiB more. All responses of a worker share 8 MiB."},
      &T::response_buffer_bytes, SizeForm{0, 1024 * MiB});
  visit(Key{"max_connections",
            "Maximum number of connections, over all workers; 0: no limit. At the limit the "
            "connection that is idle longest, one of a client with more than its share first, is "
            "closed for a new one; while none is idle, new ones wait to be accepted."},
        &T::max_connections, CountForm{0, 10 * million});
  visit(Key{"max_streams", "Maximum number of concurrent requests on an HTTP/2 connection."},
        &T::max_streams, CountForm{1, 10'000});
}

void each_key(Of<EndpointPickerConfig>, const auto& visit) {
  using T = EndpointPickerConfig;
  visit(Key{"pool", "The pool of all requests.", "as `routes` decide"}, &T::pool, pool_name);
  visit(Key{"responses",
            "Whether answers are read, for what pools learn from them and for usage (`observe`), "
            "or each stream ends with the pick, which costs less (`skip`); `auto`: they are read "
            "where something wants to know."},
        &T::responses, EnumForm<PickerResponses>{"responses", {"auto", "observe", "skip"}});
}

void each_key(Of<ListenerConfig>, const auto& visit) {
  using T = ListenerConfig;
  visit(Key{"name", "Its name in logs, metrics and the start-up message."}, &T::name, plain_name);
  visit(Key{"address",
            "The address to listen on; `:8080` means every IPv4 address, port 0 lets the kernel "
            "choose."},
        &T::address, listen_address());
  visit(
      Key{"tls", "Serve TLS; ALPN selects HTTP/2 or HTTP/1.1 as the client prefers.", "cleartext"},
      &T::tls, OptionalForm<StructForm<ListenerTlsConfig>>{});
  visit(Key{"timeouts", "Timeouts towards clients."}, &T::timeouts, StructForm<ListenerTimeouts>{});
  visit(Key{"limits", "Limits for clients."}, &T::limits, StructForm<ListenerLimits>{});
  visit(Key{"proxy_protocol",
            "Networks of load balancers that start each connection with a PROXY header, version 1 "
            "or 2. On connections from these networks the header is required and gives the address "
            "of the client; on others it is not accepted.",
            "none"},
        &T::proxy_protocol, ListForm<NetworkForm>{{}, "a list of networks"});
  visit(Key{"trusted_proxies",
            "Networks (10.0.0.0/8, ::1) of proxies whose Forwarded, X-Forwarded-* and X-Real-IP "
            "fields are trusted; from others these fields are replaced or removed.",
            "none"},
        &T::trusted_proxies, ListForm<NetworkForm>{{}, "a list of networks"});
  visit(Key{"half_close",
            "What to do when a client closes only its sending side: `abort` the request, since a "
            "disconnect looks the same, or `wait` and respond."},
        &T::half_close, EnumForm<HalfClose>{"half_close", {"abort", "wait"}});
  visit(Key{"tenant_header",
            "Header field in which `trusted_proxies` name the tenant of a request; from others it "
            "is not read. It comes before the API key.",
            "none"},
        &T::tenant_header, header_name);
  visit(Key{"endpoint_picker",
            "Tells other proxies where to send their requests, in place of proxying: Envoy's "
            "external processing (ext_proc) over gRPC, as gateways ask an endpoint picker.",
            "none: it proxies"},
        &T::endpoint_picker, OptionalForm<StructForm<EndpointPickerConfig>>{});
  visit(Key{"scaler",
            "Whether it answers KEDA's external scaler over gRPC, for pools with `scaling`, in "
            "place of proxying."},
        &T::scaler, FlagForm{});
}

inline void finish(Of<ListenerConfig>, Node& node, ListenerConfig& listener) {
  if (listener.scaler && listener.endpoint_picker)
    node.fail("is a scaler and an endpoint picker", "write two listeners");
  if (!listener.tenant_header.empty() && listener.trusted_proxies.empty()) {
    node.fail("'tenant_header' has no effect without 'trusted_proxies'",
              "add trusted_proxies: [NETWORK], with the proxies that set it");
  }
}

void each_key(Of<AdminConfig>, const auto& visit) {
  visit(Key{"address",
            "The address of /metrics, /healthz, /readyz, /api/v1 and /ui/; keep it private."},
        &AdminConfig::address, listen_address());
  visit(Key{"token_file",
            "File with the token that allows changes (drain, weight, reload) from other machines, "
            "sent as `authorization: Bearer TOKEN`.",
            "none: changes from loopback only"},
        &AdminConfig::token_file, SecretFileForm{});
  visit(Key{"token_for",
            "What needs that token: `remote`: changes from other machines; `changes`: every change "
            "and every check of a file, from this machine too; `all`: reads as well, but for "
            "`/healthz`, `/readyz` (without `?verbose`) and the files of `/ui/`."},
        &AdminConfig::token_for, EnumForm<TokenFor>{"token_for", {"remote", "changes", "all"}});
  visit(Key{"hosts",
            "Host names by which `/metrics`, `/healthz` and `/readyz` may be requested; `*` stands "
            "for any text. IP addresses and `localhost` are always accepted. `/api/v1` and `/ui/` "
            "accept these and the names without `*`.",
            "any name"},
        &AdminConfig::hosts,
        ListForm<TextForm>{TextForm{"a host name", check_not_empty}, "a list of host names"});
  visit(Key{"readyz",
            "When `/readyz` answers 503, besides during start and drain: `any`: while no pool has "
            "a backend that is up; `all`: while at least one pool has none; `never`: never because "
            "of pools."},
        &AdminConfig::readyz, EnumForm<ReadyzRule>{"readyz", {"any", "all", "never"}});
  visit(Key{"tls",
            "TLS for the admin listener, with the keys of a client listener. It ignores SNI: of "
            "several certificates it uses the first of each key type (RSA, ECDSA). It forwards no "
            "client certificates.",
            "none"},
        &AdminConfig::tls, OptionalForm<StructForm<ListenerTlsConfig>>{});
}

inline void finish(Of<AdminConfig>, Node& node, AdminConfig& admin) {
  if (admin.tls && admin.tls->self_signed)
    node.fail("'tls.self_signed' is for listeners only", "name certificates in its place");
  if (admin.token_for == TokenFor::remote_changes || node.has("token_file")) return;
  node.fail("'token_for' needs a 'token_file'", "add token_file: FILE, with a token in it");
}

}  // namespace evenkeel::config_file

#include "config/synonyms.h"

#include <algorithm>
#include <array>

#include "config/text.h"
#include "evenkeel/inference/engine.h"

namespace evenkeel::config_file {
namespace {

struct Synonyms {
  std::string_view meaning;  // a key or value of ours
  std::string_view names;    // elsewhere; in lower case, without separators, one space between
};

// A name may stand in several rows: the first row whose meaning is known at that place counts, so
// `listen` is `listeners` at the top and `address` within a listener.
constexpr auto synonyms = std::to_array<Synonyms>({
    // Keys at the top.
    {"listeners", "listen listener bind frontend frontends entrypoint entrypoints server"},
    {"pools",
     "upstream upstreams cluster clusters backend backends servers service services targetgroup "
     "targetgroups modellist"},
    {"routes", "location locations vhost vhosts virtualhost virtualhosts rules routers paths"},
    {"workers", "threads nbthread workerprocesses processes concurrency cpus"},
    {"busy_polling", "busypoll spin spinning"},
    {"access_log", "accesslogs"},
    {"log", "logs logging"},
    {"tracing", "trace traces opentelemetry otel otlp"},
    {"admin", "stats management api dashboard"},
    {"dns", "resolver resolvers nameserver nameservers"},
    {"shutdown", "drain gracefulshutdown hardstopafter termination"},
    // Keys of listeners.
    {"address", "bind listen url uri host hostport target endpoint server port"},
    {"trusted_proxies", "realip setrealipfrom forwardedallowips xfftrusted"},
    {"proxy_protocol", "acceptproxy sendproxy"},
    {"max_connections", "maxconn workerconnections"},
    {"max_streams", "maxconcurrentstreams http2maxconcurrentstreams"},
    {"response_buffer", "perconnectionbufferlimitbytes proxybuffers proxybusybufferssize"},
    {"body", "clientmaxbodysize maxbody maxrequestbytes"},
    {"client_ca", "cafile verify clientcert mtls"},
    {"client_crl", "crl crlfile sslcrl revocation"},
    {"certificates", "certificate certs cert crt sslcertificate"},
    {"min_version", "sslminver sslprotocols protocols"},
    {"tls", "ssl https secure"},
    {"cert", "certificate crt certfile sslcertificate"},
    {"key", "privatekey keyfile sslcertificatekey"},
    // Keys of tracing.
    {"otlp", "endpoint url collector exporter address otlphttp"},
    {"sample", "sampling samplerate samplingrate ratio randomsampling probability sampler"},
    // Keys of usage records.
    {"http", "webhook sink collector export exporter openmeter"},
    {"batch", "batchsize maxbatchsize maxevents"},
    // Fields of the access log.
    {"client", "remoteaddr clienthost clientaddr realipremoteaddr"},
    {"user_agent", "httpuseragent requestuseragent"},
    {"referer", "httpreferer referrer"},
    {"bytes_out", "bodybytessent bytessent downstreamcontentsize"},
    {"bytes_in", "requestlength requestcontentsize"},
    {"path", "requesturi uri requestpath"},
    {"host", "httphost serverhost requesthost"},
    {"method", "requestmethod"},
    {"protocol", "serverprotocol requestprotocol"},
    {"duration_ms", "requesttime duration"},
    {"backend_ms", "upstreamresponsetime"},
    {"ttfb_ms", "upstreamheadertime"},
    {"backend", "upstreamaddr serviceaddr"},
    {"tenant", "remoteuser clientusername"},
    {"time", "timeiso8601 starttime msec"},
    {"status", "downstreamstatus statuscode"},
    {"completion_tokens", "outputtokens"},
    {"prompt_tokens", "inputtokens"},
    // Keys of pools and backends.
    {"backends",
     "server servers endpoint endpoints target targets member members hosts nodes instances "
     "replicas upstreams loadassignment"},
    {"picker",
     "balance balancer lb lbpolicy lbmethod loadbalancing loadbalancer algorithm policy strategy "
     "method"},
    {"engine", "runtime type kind backendtype"},
    {"health", "check checks healthcheck healthchecks httpchk probe livenessprobe readinessprobe"},
    {"affinity",
     "sessionaffinity sessionpersistence persistence sticky stickysession stickysessions stick "
     "sticktable"},
    {"standby", "backup spare failover"},
    {"cache", "proxycache responsecache cachepath cacheparams"},
    {"batching", "batch batches microbatch microbatching dynamicbatching"},
    {"coalesce", "proxycachelock singleflight collapsedforwarding requestcollapsing"},
    {"api_key_file", "apikey apikeyfile token tokenfile credentials authorization"},
    {"max_in_flight", "maxconn maxconnections maxrequests concurrency maxinflight parallelism"},
    {"queue", "maxqueue pending maxpendingrequests"},
    {"retry", "retries retrypolicy proxynextupstream retryon redispatch"},
    {"attempts", "retries tries numretries maxretries maxattempts"},
    {"keep_alive", "keepalive pool pooling connectionpool poolmaxconn"},
    {"max_idle", "maxidleconnections keepaliveconnections"},
    {"first_byte",
     "timeoutserver proxyreadtimeout readtimeout responsetimeout requesttimeout timeout"},
    {"connect", "timeoutconnect proxyconnecttimeout dialtimeout connecttimeout"},
    {"idle", "keepalivetimeout timeouthttpkeepalive idletimeout"},
    {"interval", "inter period periodseconds every"},
    {"timeout", "timeoutseconds"},
    {"fall", "failurethreshold unhealthythreshold maxfails"},
    {"rise", "successthreshold healthythreshold"},
    // Keys of routes.
    {"match", "when condition rule if acl"},
    {"path", "prefix pathprefix location url uri pathbeg"},
    {"host",
     "servername domain domains hostname authority hosts hostheader hostrewrite autohostrewrite "
     "hostrewriteliteral preservehost passhostheader upstreamvhost"},
    {"pool", "backend upstream cluster proxypass usebackend service target defaultbackend"},
    {"split", "weightedclusters weights canary trafficsplit"},
    {"mirror", "requestmirrorpolicies requestmirror mirroring shadow mirrorpercentage"},
    // Values of `picker`.
    {"round-robin", "rr"},
    {"weighted", "wrr weightedroundrobin staticrr swrr"},
    {"least-connections",
     "leastconn leastconns leastrequest leastrequests lc random p2c poweroftwo poweroftwochoices "
     "twochoices leastoutstandingrequests"},
    {"least-latency", "ewma peakewma leasttime latency responsetime"},
    {"consistent-hash", "hash ringhash maglev ketama source iphash sticky sessionaffinity uri"},
    {"prefix-affinity",
     "prefix prefixhash prefixcache prefixaware cacheaware kvaware kvcache promptprefix chwbl"},
    {"expected-time",
     "expectedtime predictedtime predictedlatency predictedttft leastcost costaware slo sloaware"},
    {"queue-depth", "queue leastqueue leastwaiting"},
    // Values of `protocol`.
    {"h2", "http2 http20 h2c grpc"},
    {"http1", "http http11 h1"},
    // Other values.
    {"off", "none never disabled disable no false"},
});

}  // namespace

std::optional<std::string> meaning_of(std::string_view word,
                                      const std::vector<std::string>& words) {
  const std::string name = lower_without("-_./ ", word);
  const auto means = [&](std::string_view meaning, std::string_view names) {
    return lists_word(names, name) && std::ranges::find(words, meaning) != words.end();
  };
  for (const Synonyms& row : synonyms) {
    if (means(row.meaning, row.names)) return std::string{row.meaning};
  }
  for (const Engine* engine : engines()) {
    if (means(engine->name, engine->synonyms)) return std::string{engine->name};
  }
  return std::nullopt;
}

}  // namespace evenkeel::config_file

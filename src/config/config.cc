#include "evenkeel/config/config.h"

#include <algorithm>

#include "config/fields.h"

namespace evenkeel {

const std::vector<std::string>& engine_names() {
  static const std::vector<std::string> names{config_file::engine_words.begin(),
                                              config_file::engine_words.end()};
  return names;
}

const std::vector<std::string>& picker_names() {
  static const std::vector<std::string> names{config_file::picker_words.begin(),
                                              config_file::picker_words.end()};
  return names;
}

milliseconds default_keep_alive_idle(std::string_view engine) {
  using namespace std::chrono_literals;
  // vLLM, SGLang, trtllm-serve and whatever else runs on uvicorn close after 5 s, llama.cpp's
  // cpp-httplib too; Ray's proxy after 90 s. Servers of which we do not know count as uvicorn.
  return engine == "ray" ? 60s : 4s;
}

milliseconds default_health_timeout(std::string_view engine) {
  using namespace std::chrono_literals;
  const bool slow = engine == "sglang" || engine == "ray" || engine == "torchserve";
  return slow || engine == "auto" ? 5s : 1s;
}

BackendProtocol default_protocol(const PoolConfig& pool) {
  const bool secure =
      pool.tls || std::any_of(pool.backends.begin(), pool.backends.end(),
                              [](const BackendConfig& backend) { return backend.address.secure; });
  return secure ? BackendProtocol::automatic : BackendProtocol::http1;
}

}  // namespace evenkeel

#include "evenkeel/upstream/model_catalog.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <memory>
#include <set>
#include <string>
#include <utility>
#include <vector>

namespace evenkeel {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;
using testing::Not;

ModelCards cards(std::vector<ModelCard> list) {
  return std::make_shared<const std::vector<ModelCard>>(std::move(list));
}

/// A configuration of pools with backends at literal addresses, and what is known of them.
class ModelCatalogs : public testing::Test {
 protected:
  PoolConfig& pool(const std::string& name, int backends, std::vector<std::string> models = {}) {
    PoolConfig added{.name = name, .models = std::move(models)};
    for (int i = 0; i < backends; ++i) {
      const auto port =
          static_cast<std::uint16_t>(9000 + 10 * static_cast<int>(config.pools.size()) + i);
      added.backends.push_back({.address = {"127.0.0.1", port}});
    }
    covered.insert(name);
    return config.pools.emplace_back(std::move(added));
  }
  void build() {
    auto built = PoolSet::build(
        config,
        BuildInputs{
            .find = [](const Address& address) { return *resolve(address.host, address.port); }},
        pool_set.get());
    ASSERT_TRUE(built);
    pool_set = *built;
    statuses.clear();
    for (const PoolSet::PoolEntry& entry : pool_set->pools()) {
      for (const BackendPtr& backend : entry.state->backends()) {
        auto status = std::make_shared<BackendStatus>(
            BackendStatus{.pool = entry.state->config().name, .backend = backend->id()});
        status->health.state = HealthState::up;
        statuses.push_back(status);
      }
    }
  }
  BackendStatus& status(std::size_t number) { return *statuses[number]; }
  SharedBackend& shared(std::size_t pool, std::size_t backend) {
    return pool_set->pools()[pool].state->backends()[backend]->shared();
  }
  /// Whether the catalog has changed.
  bool update() {
    std::vector<MonitorSnapshot::Entry> entries;
    for (const auto& each : statuses) entries.push_back(std::make_shared<BackendStatus>(*each));
    auto next = builder.update(config, *pool_set, MonitorSnapshot(std::move(entries)), covered);
    if (next == nullptr) return false;
    catalog = std::move(next);
    return true;
  }
  std::vector<std::string> ids(const std::string& name) {
    std::vector<std::string> found;
    for (const ModelCard& card : catalog->find(name)->models) found.push_back(card.id);
    return found;
  }

  Config config{.pools = {}};
  std::set<std::string> covered;
  std::shared_ptr<const PoolSet> pool_set;
  std::vector<std::shared_ptr<BackendStatus>> statuses;  // in the order of pools and backends
  ModelCatalogBuilder builder;
  std::shared_ptr<const ModelCatalog> catalog;
};

TEST_F(ModelCatalogs, HaveTheNamesOfTheFileInItsOrderWhileABackendIsThere) {
  pool("a", 2, {"z", "b", "z"});
  build();
  update();
  EXPECT_THAT(ids("a"), ElementsAre("z", "b"));

  shared(0, 0).state.take_out(OutOfRotation::unhealthy);
  EXPECT_FALSE(update());
  shared(0, 1).state.take_out(OutOfRotation::draining);
  EXPECT_TRUE(update());
  EXPECT_THAT(ids("a"), IsEmpty());
  EXPECT_TRUE(catalog->find("a")->known);
  EXPECT_FALSE(catalog->find("a")->available);

  shared(0, 0).state.clear(OutOfRotation::unhealthy);
  EXPECT_TRUE(update());
  EXPECT_THAT(ids("a"), ElementsAre("z", "b"));
}

TEST_F(ModelCatalogs, HaveWhatTheBackendsListByName) {
  pool("a", 2);
  build();
  update();
  EXPECT_FALSE(catalog->find("a")->known);

  status(0).cards = cards({{.id = "base", .created = 5}, {.id = "lora"}});
  status(1).cards = cards({{.id = "base", .created = 6}, {.id = "another"}});
  ASSERT_TRUE(update());
  EXPECT_THAT(ids("a"), ElementsAre("another", "base", "lora"));
  EXPECT_EQ(catalog->find("a")->find("base")->created, 5);

  shared(0, 0).state.take_out(OutOfRotation::unhealthy);
  ASSERT_TRUE(update());
  EXPECT_THAT(ids("a"), ElementsAre("another", "base"));
}

TEST_F(ModelCatalogs, UseNamesWithoutCardsToo) {
  pool("a", 1);
  build();
  status(0).models = std::make_shared<const std::vector<std::string>>(1, "detected");
  update();
  EXPECT_THAT(ids("a"), ElementsAre("detected"));
}

TEST_F(ModelCatalogs, GiveTheNamesOfTheFileTheCardsOfTheBackends) {
  pool("a", 1, {"llama3", "unlisted"}).engine = "ollama";
  build();
  status(0).engine = "ollama";
  status(0).cards = cards({{.id = "llama3:latest", .owner = "library", .details = "\"n\":1"}});
  update();
  EXPECT_THAT(ids("a"), ElementsAre("llama3", "unlisted"));
  EXPECT_EQ(catalog->find("a")->models[0].owner, "library");
  EXPECT_EQ(catalog->find("a")->models[0].details, "\"n\":1");
  EXPECT_EQ(catalog->find("a")->models[1].owner, "");
}

TEST_F(ModelCatalogs, GiveNamesThatBackendsDoNotKnowTheCardOfTheServedModel) {
  pool("a", 1, {"chat"}).model = "/models/llama";
  build();
  status(0).cards = cards({{.id = "/models/llama", .owner = "vllm", .details = "\"n\":1"}});
  update();
  EXPECT_THAT(ids("a"), ElementsAre("chat"));
  EXPECT_EQ(catalog->find("a")->models[0].details, "\"n\":1");
}

TEST_F(ModelCatalogs, FindAModelWithoutTheTagThatItsEngineImplies) {
  pool("a", 1).engine = "ollama";
  build();
  status(0).engine = "ollama";
  status(0).cards = cards({{.id = "llama3:latest"}, {.id = "llama3:70b"}});
  update();
  const PoolModels& models = *catalog->find("a");
  EXPECT_EQ(models.find("llama3")->id, "llama3:latest");
  EXPECT_EQ(models.find("llama3:70b")->id, "llama3:70b");
  EXPECT_EQ(models.find("llama"), nullptr);
}

TEST_F(ModelCatalogs, CountASpareButNoUncheckedBackendThatCannotBeConnected) {
  pool("a", 1, {"m"});
  build();
  shared(0, 0).state.take_out(OutOfRotation::standby);
  update();
  EXPECT_TRUE(catalog->find("a")->available);

  shared(0, 0).state.connect_failed(Clock::now());
  EXPECT_FALSE(update());  // its checks decide
  status(0).health.state = HealthState::unchecked;
  EXPECT_TRUE(update());
  EXPECT_FALSE(catalog->find("a")->available);
}

TEST_F(ModelCatalogs, SayWhetherTheEngineHasAnApiOfItsOwn) {
  pool("a", 1, {"m"});
  build();
  update();
  EXPECT_FALSE(catalog->find("a")->own_api);
  status(0).has_own_models_api = true;
  update();
  EXPECT_TRUE(catalog->find("a")->own_api);
}

TEST_F(ModelCatalogs, CoverThePoolsThatAreAskedFor) {
  pool("a", 1, {"m"});
  pool("b", 1, {"n"});
  covered.erase("b");
  build();
  EXPECT_TRUE(update());
  EXPECT_EQ(catalog->find("b"), nullptr);
  EXPECT_FALSE(update());

  covered = {"b"};
  EXPECT_TRUE(update());
  EXPECT_EQ(catalog->find("a"), nullptr);
  EXPECT_THAT(ids("b"), ElementsAre("n"));
}

TEST_F(ModelCatalogs, KeepThePoolsThatHaveNotChanged) {
  pool("a", 1, {"m"});
  pool("b", 1, {"n"});
  build();
  update();
  const PoolModels* const before = catalog->find("a");
  shared(1, 0).state.take_out(OutOfRotation::unhealthy);
  update();
  EXPECT_EQ(catalog->find("a"), before);
}

std::string text_of(std::string_view model, std::vector<std::string_view> names) {
  const Error error = model_not_found(model, names, "/v1/models");
  EXPECT_EQ(error.fault, Fault::model_not_found);
  EXPECT_EQ(error.side, Side::client);
  return error.detail;
}

TEST(ModelNotFound, NamesNearModels) {
  EXPECT_EQ(text_of("lama-8b", {"qwen", "llama-8b"}),
            "The model `lama-8b` does not exist. Did you mean `llama-8b`? GET /v1/models lists the "
            "models.");
  EXPECT_THAT(text_of("m-0", {"m-1", "m-2"}), HasSubstr("Did you mean `m-1` or `m-2`?"));
  EXPECT_THAT(text_of("m-0", {"m-1", "m-2", "m-3"}),
              HasSubstr("Did you mean `m-1`, `m-2` or `m-3`?"));
  EXPECT_EQ(text_of("x", {"llama"}),
            "The model `x` does not exist. GET /v1/models lists the models.");
}

TEST(ModelNotFound, DoesNotSuggestWhatWasAskedFor) {
  EXPECT_THAT(text_of("alpha", {"alpha", "alpha2"}), HasSubstr("Did you mean `alpha2`?"));
  EXPECT_THAT(text_of("alpha", {"alpha"}), Not(HasSubstr("Did you mean")));
}

TEST(ModelNotFound, RepeatsLittleOfWhatAClientSends) {
  EXPECT_LT(text_of(std::string(100'000, 'x'), {}).size(), 200u);
  EXPECT_THAT(text_of("a\nb\x1b[31m\x7f", {}), HasSubstr("`a?b?[31m?`"));
  // Not within a character.
  EXPECT_THAT(text_of(std::string(99, 'x') + "\xc3\xa9 and more", {}),
              HasSubstr(std::string(99, 'x') + "...`"));
}

}  // namespace
}  // namespace evenkeel

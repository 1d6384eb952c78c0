#include "evenkeel/inference/ollama_list.h"

#include <gtest/gtest.h>

#include <string>

namespace evenkeel {
namespace {

/// The models, or "none" for a text that is no list.
std::string models_of(const std::string& text) {
  const auto entries = read_ollama_list(text);
  if (!entries) return "none";
  std::string models;
  for (const OllamaEntry& each : *entries) models += each.model + " " + each.json + ";";
  return models;
}

TEST(OllamaList, HasTheWholeEntryOfEachModel) {
  EXPECT_EQ(models_of(R"({"models":[{"name":"x","model":"a:1","size":3,"details":{"f":[1]}}]})"),
            R"(a:1 {"name":"x","model":"a:1","size":3,"details":{"f":[1]}};)");
  EXPECT_EQ(models_of(R"({"x":{},"models":[{"model":"m","name":"n"}]})"),
            R"(m {"model":"m","name":"n"};)");
  EXPECT_EQ(models_of(R"({"models":[{"name":"n"}]})"), R"(n {"name":"n"};)")
      << "an older server has no `model`";
  EXPECT_EQ(models_of(R"({"models":[]})"), "");
}

TEST(OllamaList, LeavesOutEntriesThatNameNoModel) {
  EXPECT_EQ(models_of(R"({"models":[{"model":5},3,null,{"name":""},{"model":"a"}]})"),
            R"(a {"model":"a"};)");
}

TEST(OllamaList, IsNothingElse) {
  for (const char* text :
       {"", "[]", "{}", R"({"models":null})", R"({"models":[{"model":"a"})", "x"})
    EXPECT_EQ(models_of(text), "none") << text;
}

}  // namespace
}  // namespace evenkeel

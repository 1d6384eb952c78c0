// Recorded metrics pages of real servers: NAME.txt, or NAME.txt.gz for large ones.
#pragma once

#include <gtest/gtest.h>
#include <zlib.h>

#include <filesystem>
#include <map>
#include <string>

namespace evenkeel {

/// zlib reads plain files, too.
inline std::string read_recorded(const std::filesystem::path& path) {
  std::string text;
  const gzFile file = gzopen(path.c_str(), "rb");
  EXPECT_NE(file, nullptr) << path;
  if (file == nullptr) return text;
  char piece[65536];
  for (int size = 0; (size = gzread(file, piece, sizeof piece)) > 0;) {
    text.append(piece, static_cast<std::size_t>(size));
  }
  gzclose(file);
  return text;
}

inline std::filesystem::path recorded_folder() {
  return std::filesystem::path(EVENKEEL_SOURCE_DIR) / "tests/inference/expositions";
}

/// By name, such as "vllm".
inline std::map<std::string, std::string> all_recorded() {
  std::map<std::string, std::string> recordings;
  for (const auto& entry : std::filesystem::directory_iterator(recorded_folder())) {
    const std::string file = entry.path().filename();
    recordings[file.substr(0, file.find('.'))] = read_recorded(entry.path());
  }
  return recordings;
}

}  // namespace evenkeel

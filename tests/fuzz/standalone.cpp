// Runs a fuzz target without libFuzzer: every file of the given folders, then mutations of them, always the same ones.
//     fuzz_NAME [-runs=N] [-seed=N] FOLDER_OR_FILE...
// It follows no coverage; scripts/fuzz does, where there is clang. An input that fails aborts the program and lies in
// crash-input in the working folder.
#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <iostream>
#include <iterator>
#include <random>
#include <string>
#include <vector>

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size);

namespace {

constexpr std::size_t kMaxBytes = 600;  // longer inputs find nothing that shorter ones don't, and are slow

void run(const std::string& input) {
  static const bool keep = std::getenv("TOKSEAM_FUZZ_KEEP") != nullptr;
  if (keep) std::ofstream("crash-input", std::ios::binary) << input;
  LLVMFuzzerTestOneInput(reinterpret_cast<const std::uint8_t*>(input.data()), input.size());
}

std::string mutate(std::mt19937& random, const std::vector<std::string>& corpus) {
  std::string input = corpus[random() % corpus.size()];
  for (std::size_t changes = 1 + random() % 8; changes > 0; --changes) {
    const std::size_t at = random() % (input.size() + 1);
    switch (random() % 6) {
      case 0: input.insert(at, 1, static_cast<char>(random() & 0xFF)); break;
      case 1: input.erase(at, random() % 4); break;
      case 2: if (at < input.size()) input[at] = static_cast<char>(random() & 0xFF); break;
      case 3: if (at < input.size()) input[at] = static_cast<char>(input[at] ^ (1 << (random() % 8))); break;
      case 4: input.insert(at, input.substr(random() % (input.size() + 1), random() % 20)); break;
      default: {
        const std::string& other = corpus[random() % corpus.size()];
        input = input.substr(0, at) + other.substr(random() % (other.size() + 1));
      }
    }
  }
  input.resize(std::min(input.size(), kMaxBytes));
  return input;
}

}  // namespace

int main(int argc, char** argv) {
  std::size_t runs = 0, seed = 1;
  std::vector<std::filesystem::path> files;
  for (int i = 1; i < argc; ++i) {
    const std::string argument = argv[i];
    if (argument.starts_with("-runs=")) {
      runs = std::stoul(argument.substr(6));
    } else if (argument.starts_with("-seed=")) {
      seed = std::stoul(argument.substr(6));
    } else if (std::filesystem::is_directory(argument)) {
      for (const auto& entry : std::filesystem::directory_iterator(argument)) files.push_back(entry.path());
    } else {
      files.push_back(argument);
    }
  }
  std::sort(files.begin(), files.end());  // a folder lists its files in any order
  std::vector<std::string> corpus;
  for (const auto& path : files) {
    std::ifstream file(path, std::ios::binary);
    corpus.emplace_back(std::istreambuf_iterator<char>(file), std::istreambuf_iterator<char>());
    run(corpus.back());
  }
  if (corpus.empty()) corpus.emplace_back();
  std::mt19937 random(static_cast<std::mt19937::result_type>(seed));
  for (std::size_t i = 0; i < runs; ++i) run(mutate(random, corpus));
  std::cout << files.size() << " files and " << runs << " mutations: ok" << std::endl;
  return 0;
}

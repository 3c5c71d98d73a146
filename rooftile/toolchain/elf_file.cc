// SPDX-License-Identifier: Apache-2.0
#include "rooftile/toolchain/elf_file.h"

#include <elf.h>
#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cstring>
#include <vector>

#include "rooftile/base/hash.h"

namespace rooftile {

namespace {

class File {
 public:
  explicit File(const std::string& path) : fd_(open(path.c_str(), O_RDONLY | O_CLOEXEC)) {}
  ~File() {
    if (fd_ >= 0) close(fd_);
  }
  File(const File&) = delete;
  File& operator=(const File&) = delete;

  int64_t size() const {
    struct stat info;
    return fd_ >= 0 && fstat(fd_, &info) == 0 && S_ISREG(info.st_mode) ? info.st_size : -1;
  }
  // Exactly `count` bytes from `offset`, or nothing.
  std::optional<std::string> read(uint64_t offset, uint64_t count) const {
    std::string bytes(count, '\0');
    size_t done = 0;
    while (done < count) {
      const ssize_t n =
          pread(fd_, bytes.data() + done, count - done, static_cast<off_t>(offset + done));
      if (n <= 0) return std::nullopt;
      done += static_cast<size_t>(n);
    }
    return bytes;
  }

 private:
  int fd_;
};

template <class T>
T record(const std::string& bytes, size_t at) {
  T out{};
  if (at + sizeof out <= bytes.size()) std::memcpy(&out, bytes.data() + at, sizeof out);
  return out;
}

size_t align4(size_t n) { return (n + 3) & ~size_t{3}; }

std::string hex(std::string_view bytes) {
  constexpr const char* kDigits = "0123456789abcdef";
  std::string out;
  for (const char c : bytes) {
    const auto byte = static_cast<unsigned char>(c);
    out += kDigits[byte >> 4];
    out += kDigits[byte & 15];
  }
  return out;
}

std::optional<std::string> build_id_in(const std::string& notes) {
  for (size_t at = 0; at + sizeof(Elf64_Nhdr) <= notes.size();) {
    const auto note = record<Elf64_Nhdr>(notes, at);
    const size_t name = at + sizeof note, data = name + align4(note.n_namesz);
    if (data > notes.size() || note.n_descsz > notes.size() - data) return std::nullopt;
    if (note.n_type == NT_GNU_BUILD_ID && notes.compare(name, note.n_namesz, "GNU\0", 4) == 0 &&
        note.n_descsz > 0)
      return hex(std::string_view(notes).substr(data, note.n_descsz));
    at = data + align4(note.n_descsz);
  }
  return std::nullopt;
}

std::optional<std::string> build_id(const File& file, const Elf64_Ehdr& header) {
  constexpr uint64_t kMaxNoteBytes = 64 << 10;
  const auto table = file.read(header.e_phoff, uint64_t{header.e_phnum} * sizeof(Elf64_Phdr));
  if (!table || header.e_phentsize != sizeof(Elf64_Phdr)) return std::nullopt;
  for (size_t i = 0; i < header.e_phnum; ++i) {
    const auto segment = record<Elf64_Phdr>(*table, i * sizeof(Elf64_Phdr));
    if (segment.p_type != PT_NOTE || segment.p_filesz > kMaxNoteBytes) continue;
    if (const auto notes = file.read(segment.p_offset, segment.p_filesz))
      if (auto id = build_id_in(*notes)) return id;
  }
  return std::nullopt;
}

}  // namespace

std::optional<std::string> library_identity(const std::string& path) {
  const File file(path);
  const int64_t size = file.size();
  if (size < static_cast<int64_t>(sizeof(Elf64_Ehdr))) return std::nullopt;
  const auto head = file.read(0, sizeof(Elf64_Ehdr));
  if (!head || head->compare(0, SELFMAG, ELFMAG) != 0 || (*head)[EI_CLASS] != ELFCLASS64)
    return std::nullopt;
  if (auto id = build_id(file, record<Elf64_Ehdr>(*head, 0))) return "build-id " + *id;

  const uint64_t bytes = static_cast<uint64_t>(size), part = std::min<uint64_t>(bytes, 64 << 10);
  const auto first = file.read(0, part), last = file.read(bytes - part, part);
  if (!first || !last) return std::nullopt;
  return "size " + std::to_string(size) + " sha256 " +
         Sha256().field(*first).field(*last).hex().substr(0, 32);
}

}  // namespace rooftile

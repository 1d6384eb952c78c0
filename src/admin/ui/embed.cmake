# Writes OUTPUT, a C++ file that has the files NAMES of FOLDER in gzip format:
#   cmake -DOUTPUT=FILE -DFOLDER=FOLDER -DNAMES=a,b -P embed.cmake
# The same files give the same bytes: gzip -n writes neither name nor time.
string(REPLACE "," ";" names "${NAMES}")
set(arrays "")
set(entries "")
set(number 0)
foreach(name IN LISTS names)
  execute_process(COMMAND gzip -9nc ${FOLDER}/${name} OUTPUT_FILE ${OUTPUT}.gz COMMAND_ERROR_IS_FATAL ANY)
  file(READ ${OUTPUT}.gz bytes HEX)
  string(REGEX REPLACE "(..)" "0x\\1," bytes "${bytes}")
  file(SHA256 ${FOLDER}/${name} hash)
  string(SUBSTRING ${hash} 0 20 hash)
  string(APPEND arrays "constexpr unsigned char file_${number}[] = {${bytes}};\n")
  string(APPEND entries "    {\"${name}\", {reinterpret_cast<const char*>(file_${number}), sizeof file_${number}}, \"W/\\\"${hash}\\\"\"},\n")
  math(EXPR number "${number} + 1")
endforeach()
file(REMOVE ${OUTPUT}.gz)
file(WRITE ${OUTPUT} "#include \"admin/page.h\"

namespace evenkeel {
namespace {
${arrays}
const PageFile files[] = {
${entries}};
}  // namespace

std::span<const PageFile> page_files() { return files; }

}  // namespace evenkeel
")

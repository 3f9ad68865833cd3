# SPDX-License-Identifier: Apache-2.0
# Files as part of a program.
#
#   spectralclip_embed(<target> NAME <symbol> FILES <file>...)
#
# adds to <target> the function, declared in "embedded/<symbol>.h",
#
#   std::span<const spectralclip::embedded::EmbeddedFile> spectralclip::embedded::<symbol>();
#
# with one {name, text} for each file, in the given order; the name has no folders and must be unique. The assembler
# includes the bytes (.incbin): five megabytes cost milliseconds, where a C array of them costs the compiler minutes. A
# file that changes is embedded anew. Needs a GNU-like assembler (GCC, Clang; ELF or Mach-O).
enable_language(ASM)
set(SPECTRALCLIP_EMBED_DIR "${CMAKE_CURRENT_LIST_DIR}")

# Leaves a file alone that is as it should be, so that nothing is compiled again. (file(CONFIGURE) would do the same, but
# replaces @…@ within paths.)
function(spectralclip_embed_write path content)
  set(present "")
  if(EXISTS "${path}")
    file(READ "${path}" present)
  endif()
  if(NOT present STREQUAL content)
    file(WRITE "${path}" "${content}")
  endif()
endfunction()

function(spectralclip_embed target)
  cmake_parse_arguments(PARSE_ARGV 1 embed "" "NAME" "FILES")
  if(NOT embed_NAME MATCHES "^[a-z][a-z0-9_]*$")
    message(FATAL_ERROR "spectralclip_embed(${target}): NAME \"${embed_NAME}\" is no lower-case identifier")
  endif()
  if(NOT embed_FILES)
    message(FATAL_ERROR "spectralclip_embed(${target} NAME ${embed_NAME}): no FILES")
  endif()

  set(folder "${CMAKE_CURRENT_BINARY_DIR}/embedded_${target}")
  set(stem "${folder}/embedded/${embed_NAME}")
  set(prefix "spectralclip_embedded_${embed_NAME}")
  set(assembly "// Made by EmbedFiles.cmake\n#if defined(__APPLE__)\n#define SYMBOL(name) _##name\n#define HIDE .private_extern\n.const\n#else\n")
  string(APPEND assembly "#define SYMBOL(name) name\n#define HIDE .hidden\n.section .rodata\n#endif\n")
  set(symbols "")
  set(rows "")
  set(names "")
  set(paths "")
  set(index 0)
  foreach(file IN LISTS embed_FILES)
    cmake_path(ABSOLUTE_PATH file BASE_DIRECTORY "${CMAKE_CURRENT_SOURCE_DIR}" NORMALIZE)
    if(NOT EXISTS "${file}" OR IS_DIRECTORY "${file}")
      message(FATAL_ERROR "spectralclip_embed(${target} NAME ${embed_NAME}): no file ${file}")
    endif()
    cmake_path(GET file FILENAME name)
    if(name IN_LIST names)
      message(FATAL_ERROR "spectralclip_embed(${target} NAME ${embed_NAME}): two files are called ${name}")
    endif()
    list(APPEND names "${name}")
    list(APPEND paths "${file}")
    set(symbol "${prefix}_${index}")
    string(REGEX REPLACE "([\\\"])" "\\\\\\1" quoted_file "${file}")
    string(REGEX REPLACE "([\\\"])" "\\\\\\1" quoted_name "${name}")
    string(APPEND assembly "\n.globl SYMBOL(${symbol})\nHIDE SYMBOL(${symbol})\n.globl SYMBOL(${symbol}_end)\n"
                           "HIDE SYMBOL(${symbol}_end)\nSYMBOL(${symbol}):\n.incbin \"${quoted_file}\"\n"
                           "SYMBOL(${symbol}_end):\n.byte 0\n")
    string(APPEND symbols "extern const char ${symbol}[];\nextern const char ${symbol}_end[];\n")
    string(APPEND rows "      {\"${quoted_name}\", {${symbol}, static_cast<std::size_t>(${symbol}_end - ${symbol})}},\n")
    math(EXPR index "${index} + 1")
  endforeach()
  string(APPEND assembly "\n#if defined(__ELF__)\n.section .note.GNU-stack,\"\",%progbits\n#endif\n")

  spectralclip_embed_write("${stem}.S" "${assembly}")
  spectralclip_embed_write("${stem}.h"
"// Made by EmbedFiles.cmake
#pragma once
#include <span>
#include \"embedded/embedded_file.h\"
namespace spectralclip::embedded {
[[nodiscard]] std::span<const EmbeddedFile> ${embed_NAME}();
}
")
  spectralclip_embed_write("${stem}.cpp"
"// Made by EmbedFiles.cmake
#include \"embedded/${embed_NAME}.h\"
#include <cstddef>
extern \"C\" {
${symbols}}
namespace spectralclip::embedded {
std::span<const EmbeddedFile> ${embed_NAME}() {
  static const EmbeddedFile files[] = {
${rows}  };
  return files;
}
}
")
  set_source_files_properties("${stem}.S" PROPERTIES OBJECT_DEPENDS "${paths}" LANGUAGE ASM)
  target_sources(${target} PRIVATE "${stem}.S" "${stem}.cpp")
  target_include_directories(${target} PUBLIC "$<BUILD_INTERFACE:${folder}>"
                                              "$<BUILD_INTERFACE:${SPECTRALCLIP_EMBED_DIR}>")
endfunction()

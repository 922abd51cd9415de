# ebb_library(NAME SOURCES a.cc ... [PUBLIC dep ...] [PRIVATE dep ...])
# ebb_program(NAME SOURCES ... PRIVATE ...)
# ebb_test(NAME SOURCES ... PRIVATE ... [LABELS unit] [TIMEOUT seconds] [SERIAL] [SHARDS n])
# SHARDS: the program's tests are dealt to n ctest tests, which run side by side.
#
# A static library for one folder. Dependencies are PRIVATE unless a public header shows their types.
add_library(ebb_options INTERFACE)
target_include_directories(ebb_options INTERFACE ${CMAKE_SOURCE_DIR})
target_compile_options(ebb_options INTERFACE
  -Wall -Wextra -Wpedantic -Wshadow -Wconversion -Wnon-virtual-dtor -Werror
  # Clang's -Wconversion has it, GCC's has not, and GCC is what we build with.
  $<$<CXX_COMPILER_ID:Clang>:-Wno-sign-conversion>
  # GCC 12 reports these inside inlined absl and fmt code at -O2: false alarms, not ours to mend.
  $<$<CXX_COMPILER_ID:GNU>:-Wno-error=maybe-uninitialized -Wno-error=stringop-overflow -Wno-error=array-bounds -Wno-error=restrict>)

set(EBB_SANITIZE "" CACHE STRING "Sanitizers for every target, e.g. address,undefined or thread")
if(EBB_SANITIZE)
  add_compile_options(-fsanitize=${EBB_SANITIZE} -fno-omit-frame-pointer -fno-sanitize-recover=all)
  add_link_options(-fsanitize=${EBB_SANITIZE})
endif()

function(ebb_library name)
  cmake_parse_arguments(ARG "" "" "SOURCES;PUBLIC;PRIVATE" ${ARGN})
  add_library(${name} STATIC ${ARG_SOURCES})
  target_link_libraries(${name} PUBLIC ${ARG_PUBLIC} PRIVATE ebb_options ${ARG_PRIVATE})
endfunction()

function(ebb_program name)
  cmake_parse_arguments(ARG "" "" "SOURCES;PRIVATE" ${ARGN})
  add_executable(${name} ${ARG_SOURCES})
  target_link_libraries(${name} PRIVATE ebb_options ${ARG_PRIVATE})
  set_target_properties(${name} PROPERTIES RUNTIME_OUTPUT_DIRECTORY ${CMAKE_BINARY_DIR}/bin)
endfunction()

function(ebb_test name)
  cmake_parse_arguments(ARG "SERIAL" "TIMEOUT;SHARDS" "SOURCES;PRIVATE;LABELS" ${ARGN})
  if(NOT ARG_LABELS)
    set(ARG_LABELS unit)
  endif()
  if(NOT ARG_TIMEOUT)
    set(ARG_TIMEOUT 120)
  endif()
  add_executable(${name} ${ARG_SOURCES})
  target_link_libraries(${name} PRIVATE ebb_options GTest::gtest GTest::gmock GTest::gtest_main ${ARG_PRIVATE})
  target_compile_definitions(${name} PRIVATE EBB_SOURCE_DIR="${CMAKE_SOURCE_DIR}" EBB_BINARY_DIR="${CMAKE_BINARY_DIR}")
  if(EBB_SANITIZE)
    math(EXPR ARG_TIMEOUT "5 * ${ARG_TIMEOUT}")
  endif()
  # The tests of the store itself: also run with sanitizers (./dev sanitize), as the target
  # storage_checks and the label storage.
  if(CMAKE_CURRENT_SOURCE_DIR MATCHES "/tests/(base|storage-backend)(/|$)")
    set_property(GLOBAL APPEND PROPERTY EBB_STORAGE_CHECKS ${name})
    list(APPEND ARG_LABELS storage)
  endif()
  set(serial FALSE)
  if(ARG_SERIAL)
    set(serial TRUE)
  endif()
  set(tests ${name})
  if(ARG_SHARDS)
    set(tests)
    math(EXPR last "${ARG_SHARDS} - 1")
    foreach(shard RANGE ${last})
      math(EXPR number "${shard} + 1")
      list(APPEND tests ${name}_${number}_of_${ARG_SHARDS})
      add_test(NAME ${name}_${number}_of_${ARG_SHARDS} COMMAND ${name})
      set_tests_properties(${name}_${number}_of_${ARG_SHARDS} PROPERTIES
        ENVIRONMENT "GTEST_TOTAL_SHARDS=${ARG_SHARDS};GTEST_SHARD_INDEX=${shard}")
    endforeach()
  else()
    add_test(NAME ${name} COMMAND ${name})
  endif()
  set_tests_properties(${tests} PROPERTIES LABELS "${ARG_LABELS}" TIMEOUT ${ARG_TIMEOUT} RUN_SERIAL ${serial}
    SKIP_RETURN_CODE 77)
endfunction()

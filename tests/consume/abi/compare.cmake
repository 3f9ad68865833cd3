# SPDX-License-Identifier: Apache-2.0
# Writes the present interface and compares it with the recorded one.
execute_process(COMMAND "${ABIDW}" --exported-interfaces-only --no-corpus-path --no-comp-dir-path
                        --no-show-locs --type-id-style hash --out-file "${PRESENT}" "${LIBRARY}" COMMAND_ERROR_IS_FATAL ANY)
execute_process(COMMAND "${ABIDIFF}" "${RECORDED}" "${PRESENT}" RESULT_VARIABLE differs OUTPUT_VARIABLE said)
if(differs)
  message(FATAL_ERROR "the interface is not the recorded one:\n${said}\n"
    "docs/abi.md says what may change in which release. Meant so: cp ${PRESENT} ${RECORDED}")
endif()

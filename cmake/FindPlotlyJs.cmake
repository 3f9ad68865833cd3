# SPDX-License-Identifier: Apache-2.0
# plotly.min.js, which the report carries: PlotlyJs_FILE, given or from the plotly of the Python that is found (pip's
# package ships it). Python is not needed when the report is made, only here.
if(NOT PlotlyJs_FILE)
  find_package(Python3 QUIET COMPONENTS Interpreter)
  if(Python3_Interpreter_FOUND)
    # Without importing it, which takes a second.
    execute_process(COMMAND "${Python3_EXECUTABLE}" -c [[
import importlib.util, pathlib
spec = importlib.util.find_spec("plotly")
print(pathlib.Path(spec.origin).parent / "package_data" / "plotly.min.js" if spec else "", end="")
]] OUTPUT_VARIABLE PlotlyJs_found ERROR_QUIET)
    if(PlotlyJs_found AND EXISTS "${PlotlyJs_found}")
      set(PlotlyJs_FILE "${PlotlyJs_found}" CACHE FILEPATH "plotly.min.js for the report" FORCE)
    endif()
  endif()
endif()

if(PlotlyJs_FILE AND EXISTS "${PlotlyJs_FILE}")
  file(READ "${PlotlyJs_FILE}" PlotlyJs_head LIMIT 200)
  string(REGEX MATCH "plotly\\.js v([0-9.]+)" PlotlyJs_match "${PlotlyJs_head}")
  set(PlotlyJs_VERSION "${CMAKE_MATCH_1}")
elseif(PlotlyJs_FILE)
  message(WARNING "PlotlyJs_FILE: no file ${PlotlyJs_FILE}")
  set(PlotlyJs_FILE "PlotlyJs_FILE-NOTFOUND")
endif()
include(FindPackageHandleStandardArgs)
find_package_handle_standard_args(PlotlyJs REQUIRED_VARS PlotlyJs_FILE VERSION_VAR PlotlyJs_VERSION
  REASON_FAILURE_MESSAGE "pip install plotly (into the Python ${Python3_EXECUTABLE}), or give -DPlotlyJs_FILE=<plotly.min.js>")

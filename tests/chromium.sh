#!/bin/sh
# Debian's Chromium without the pages that it makes for the list under its address bar, once for each context: nobody
# sees them, and they take more of the processor than most pages of ours. Of several lists of features that are off
# Chromium keeps to the last, so these are put to Playwright's own.
for each; do
    shift
    case $each in
    --disable-features=*) each=$each,WebUIOmniboxPopup,WebUIOmniboxAimPopup ;;
    esac
    set -- "$@" "$each"
done
exec chromium "$@"

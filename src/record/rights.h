/* rights.h - the recorder's rights while it reads what another user's programs wrote. */
#ifndef WS_RECORD_RIGHTS_H
#define WS_RECORD_RIGHTS_H

/*
 * Give up every capability that a recording in progress does not need, and the right to gain any by
 * an exec, for good. Called when the target runs as another user than the recorder. `folder` is
 * where reports are written. Does nothing without capabilities.
 */
void ws_rights_reduce(const char *folder);

#endif

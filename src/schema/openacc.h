/* openacc.h - what events of OpenACC are about: each sort has a table that people know. */
#ifndef WS_SCHEMA_OPENACC_H
#define WS_SCHEMA_OPENACC_H

enum ws_openacc_sort { WS_OPENACC_DATA = 1, WS_OPENACC_LAUNCH = 2, WS_OPENACC_OTHER = 3 };

#define WS_OPENACC_EVENTS 26 /* acc_event_t is below it */

#endif

/** Whether a server takes requests, and whether all is well. */
export type ServerReadiness = 'ok' | 'degraded' | 'starting' | 'draining' | 'ledger_unavailable'

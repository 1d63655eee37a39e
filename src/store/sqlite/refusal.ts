/** What SQLite's error codes mean for whoever asked, in a store's words. Light: every command loads it. Pure. */

/** Why the database as a whole takes nothing; null where something else is to blame, such as one bad row. */
export function reasonOfCode(code: string): 'busy' | 'full' | 'broken' | null {
  if (/^SQLITE_(BUSY|LOCKED)/.test(code)) return 'busy'
  if (/^SQLITE_(FULL|IOERR_SHMSIZE)/.test(code)) return 'full'
  return /^SQLITE_(IOERR|READONLY|CANTOPEN|NOMEM|CORRUPT|NOTADB|PROTOCOL|PERM|AUTH)/.test(code) ? 'broken' : null
}

/** Whether the disk had no room for what was written to it. */
export const isFullCode = (code: string): boolean => /^SQLITE_(FULL|IOERR_WRITE)/.test(code)

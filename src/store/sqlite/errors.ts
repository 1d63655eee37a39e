/** Meaning of SQLite's error codes. Keep it small: every command loads it. */
import { codeOf, messageOf } from '../../domain/error.ts'
import { ServiceError } from '../../domain/service-error.ts'

/** null for errors such as a bad row. */
export function reasonOfCode(code: string): 'busy' | 'full' | 'broken' | null {
  if (/^SQLITE_(BUSY|LOCKED)/.test(code)) return 'busy'
  if (/^SQLITE_(FULL|IOERR_SHMSIZE)/.test(code)) return 'full'
  return /^SQLITE_(IOERR|READONLY|CANTOPEN|NOMEM|CORRUPT|NOTADB|PROTOCOL|PERM|AUTH)/.test(code) ? 'broken' : null
}

export const isBusy = (error: unknown): boolean => reasonOfCode(codeOf(error)) === 'busy'

export const isFullCode = (code: string): boolean => /^SQLITE_(FULL|IOERR_WRITE)/.test(code)

const UNUSABLE: readonly [code: RegExp, what: string][] = [
  [/^SQLITE_NOTADB/, 'is not a database'],
  [/^SQLITE_(CORRUPT|FORMAT)/, 'is damaged'],
  [/^SQLITE_IOERR/, 'cannot be read or written'],
]
/** A table or column is missing, although migrations created it. */
const NO_SUCH = /^no such (table|column)|has no column named/

/** A ServiceError if the file is to blame; otherwise the error itself. */
export function toDatabaseTrouble(path: string, error: unknown): unknown {
  const code = codeOf(error)
  const said = messageOf(error)
  if (reasonOfCode(code) === 'full') return error
  const what = UNUSABLE.find(([pattern]) => pattern.test(code))?.[1]
  if (what) return new ServiceError({ kind: 'database_unusable', path }, `${path} ${what} (${said}).`)
  if (code.startsWith('SQLITE_') && NO_SUCH.test(said))
    return new ServiceError({ kind: 'database_unusable', path }, `${path} is incomplete (${said}).`)
  if (/^SQLITE_(READONLY|CANTOPEN|PERM|AUTH)/.test(code))
    return new ServiceError(
      { kind: 'database_unwritable', path },
      `${path} cannot be opened for reading and writing (${said}).`,
    )
  return error
}

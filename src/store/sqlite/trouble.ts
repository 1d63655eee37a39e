/** What SQLite says of a file that it cannot work with, in words that name the file. For the server and every command. */
import { codeOf, messageOf } from '../../domain/error.ts'
import { ServiceError } from '../../domain/service-error.ts'

/** Whether somebody else is at work on the database: by the code of what it threw. */
export const isBusy = (code: string): boolean => /^SQLITE_(BUSY|LOCKED)/.test(code)

const UNUSABLE: readonly [code: RegExp, what: string][] = [
  [/^SQLITE_NOTADB/, 'is not a database'],
  [/^SQLITE_(CORRUPT|FORMAT)/, 'is damaged'],
  [/^SQLITE_IOERR/, 'cannot be read or written'],
]
/** A statement of ours that does not fit the tables, of which the migrations say that they are there. */
const NO_SUCH = /^no such (table|column)|has no column named/

/** Turns what SQLite threw into a ServiceError where the file is to blame; anything else is returned as it is. */
export function toDatabaseTrouble(path: string, error: unknown): unknown {
  const code = codeOf(error)
  const said = messageOf(error)
  const what = UNUSABLE.find(([pattern]) => pattern.test(code))?.[1]
  if (what) return new ServiceError({ kind: 'database_unusable', path }, `${path} ${what} (${said}).`)
  if (code.startsWith('SQLITE_') && NO_SUCH.test(said))
    return new ServiceError({ kind: 'database_unusable', path }, `${path} is not whole (${said}).`)
  if (/^SQLITE_(READONLY|CANTOPEN|PERM|AUTH)/.test(code))
    return new ServiceError(
      { kind: 'database_unwritable', path },
      `${path} cannot be opened for reading and writing (${said}).`,
    )
  return error
}

/**
 * How a command fails: a kind for scripts, a sentence that says what happened and what to do, an exit code. `program.ts`
 * prints it. Failures of the services get their advice here.
 */

import { CommanderError } from 'commander'
import { messageOf } from '../domain/error.ts'
import { ServiceError, type ServiceFailure } from '../domain/service-error.ts'
import { toDay } from '../domain/time.ts'
import { refusalOf } from '../store/refusal.ts'

/** A command that could not be done. Exit code 1, or 2 where the words on the command line were wrong. */
export class CommandError extends Error {
  constructor(
    readonly kind: string,
    message: string,
    readonly exitCode: 1 | 2 = 1,
    /** Whether the line breaks of the message are ours. Any others come from an upstream, say, and are not printed. */
    readonly hasLines = false,
  ) {
    super(message)
    this.name = 'CommandError'
  }
}

/** The program that a command ran has ended, and with it the command, which has nothing to add. */
export class AgentEnded extends Error {
  constructor(readonly exitCode: number) {
    super('the agent has ended')
    this.name = 'AgentEnded'
  }
}

/** Makes the error for a wrong value of an option. */
export const usageError = (message: string) => new CommandError('usage', message, 2)

/**
 * Presents whatever ended a command.
 * @param command that was asked for, such as `tollgate keys create`.
 */
export function toCommandError(cause: unknown, command = 'tollgate'): CommandError {
  if (cause instanceof CommandError) return cause
  if (cause instanceof ServiceError) {
    const { kind, ...details } = cause.failure
    return toRefused({ kind, message: cause.message, ...details })
  }
  if (cause instanceof CommanderError) {
    const sentence = cause.message
      .replace(/^error: /, '')
      .replaceAll('\n', ' ')
      .replace(/\.$/, '')
    return usageError(`${sentence}. See the right words with: ${command} --help`)
  }
  const refused = refusalOf(cause)?.reason
  if (refused && refused !== 'broken') return new CommandError(...REFUSED[refused])
  return new CommandError('internal', `Something went wrong: ${messageOf(cause)}`)
}

/** What a service has refused, with what its failure tells beside its kind. */
interface Refused {
  kind: string
  message: string
  [detail: string]: unknown
}

/** Presents what a service has refused, here or where the admin API answered with it. */
export function toRefused({ kind, message, ...details }: Refused): CommandError {
  const advice = isKnown(kind) ? ADVICE[kind] : ''
  const text = `${message}${typeof advice === 'string' ? advice : advice(details)}`
  return new CommandError(kind, text, OF_WORDS.has(kind) ? 2 : 1, OF_LINES.has(kind))
}

const isKnown = (kind: string): kind is ServiceFailure['kind'] => Object.hasOwn(ADVICE, kind)

/** What was asked for is wrong in itself, whatever there is. */
const OF_WORDS: ReadonlySet<string> = new Set(['bad_config', 'invalid'] satisfies ServiceFailure['kind'][])

/** What lists problems, a line each. */
const OF_LINES: ReadonlySet<string> = new Set(['bad_config', 'catalog_invalid'] satisfies ServiceFailure['kind'][])

const REFUSED: Record<'busy' | 'full', [kind: string, message: string]> = {
  busy: ['database_busy', 'Another process is writing to the database. Nothing was changed; try again.'],
  full: ['disk_full', 'The disk is full. Nothing was changed; make room and try again.'],
}

type Details = Readonly<Record<string, unknown>>

/** What to do, as it is appended to what happened; '' where that says it already. */
const ADVICE: Record<ServiceFailure['kind'], string | ((details: Details) => string)> = {
  invalid: '',
  key_not_found: ' See the ids with: tollgate keys list',
  key_ambiguous: ' Name the key by one of these ids.',
  key_exists: ' Choose another name, or revoke that key first.',
  key_revoked: ' It stays so. Make another one with: tollgate keys create --name NAME',
  key_expired: ' Give it a later end first, with: tollgate keys edit KEY --expires 90d',
  key_hidden: '',
  team_not_found: ' See them with: tollgate teams list. Make one with: tollgate teams create --name NAME',
  team_ambiguous: ' Name the team by one of these ids.',
  team_exists: ' Use that one, or choose another name.',
  too_many_keys: '',
  no_team: '',
  admin_not_found: ' See them with: tollgate admin list',
  admin_exists: ' Choose another name.',
  last_owner: ' Make another owner first.',
  already_set_up: ' Whoever has lost the password gets a new code with: tollgate admin reset NAME',
  code_wrong: '',
  sign_in_failed: '',
  password_off: '',
  sign_in_ended: '',
  challenge_ended: '',
  passkey_not_found: '',
  too_many_passkeys: '',
  provider_unavailable: '',
  provider_wrong: '',
  no_role: '',
  admin_disabled: '',
  too_many_attempts: '',
  session_not_found: '',
  revision_conflict: '',
  above_ceiling: '',
  token_not_found: ' See them with: tollgate admin token list',
  token_ambiguous: ' Name the token by one of these ids.',
  token_exists: ' Choose another name, or revoke that token first.',
  request_not_found: ' See the ids with: tollgate requests list',
  request_removed: ({ createdMs, created_ms: ms = createdMs }) =>
    ` What all of them come to stays: tollgate usage --since ${typeof ms === 'number' ? toDay(ms) : 'DAY'}`,
  request_ambiguous: ' Give more of its digits.',
  model_not_found: ' See them with: tollgate models list --all',
  list_failed: '',
  provider_unknown: '',
  facts_unusable: '',
  upstream_not_found: ' See them with: tollgate upstreams list',
  upstream_disabled: '',
  upstream_exists: ' Choose another name.',
  route_not_found: '',
  declared_elsewhere: '',
  no_earlier_state: '',
  catalog_changed: '',
  catalog_unreadable: ' Name another file.',
  catalog_invalid: ({ name = 'FILE' }) => `\nCorrect the file and check it with: tollgate catalog validate ${name}`,
  catalog_not_read: '',
  owners_only: '',
  catalog_missing: ' Name the file: tollgate catalog apply FILE',
  version_not_found: ' See them with: tollgate catalog history',
  secret_unusable: '',
  secret_unchanged: '',
  secret_busy: '',
  data_unwritable: ' Choose another one with --data, or give this user the right to write there.',
  data_unreadable: ' Run this as the user that the server runs as.',
  no_folder: ' Name a folder with --data.',
  no_database: ({ dataFolder = 'FOLDER' }) =>
    ` Start the server once (tollgate serve --data ${dataFolder}) or name another folder with --data.`,
  database_unusable:
    ' Stop the server, move the file away and restore a backup of it, or name another folder with --data.',
  database_lost: '',
  database_unwritable:
    ' Run this as the user that the server runs as; if the disk is read-only, copy the data folder to another one first.',
  report_too_long: ' Ask for a shorter time with --since and --until, or for one key or model.',
  schema_outdated:
    ' Start the server of this version once (tollgate serve): it keeps a copy in backups/ and brings the database up to date.',
  schema_newer: ' Use that version, or restore a backup from before it.',
  migration_failed: ' Please report it.',
  already_served: ' Stop it first, or name another data folder with --data.',
  no_room: ' Make room there, or move the data folder to a larger disk.',
  backup_exists: ' Name another file, or have it replaced with --force.',
  backup_unwritable: ' Name another file.',
  backup_damaged: ' Look at the database with: tollgate doctor',
  backup_unusable: ' Name a file that `tollgate backup` has written.',
  backup_under_way: '',
  backup_not_found: '',
  backup_findings: ' Restore another backup, or this one as it is with --force.',
  revoked_unknown:
    ' Restore the backup with the keys that were in force then: --reinstate-revoked. Look over them after: tollgate keys list',
  restore_unfinished: ' Start the server, or restore again: either finishes it first.',
  port_in_use: ' Choose another port with --port.',
  port_forbidden: ' Choose a port above 1023 with --port.',
  no_such_address: ' Choose another one with --host.',
  not_listening: ' Choose another address with --host, or another port with --port.',
  bad_config: '',
}

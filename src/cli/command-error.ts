/** Errors of commands: a kind for scripts, an exit code, and a message that ends in what to do. */

import { CommanderError } from 'commander'
import { messageOf } from '../domain/error.ts'
import { ServiceError, type ServiceFailure } from '../domain/service-error.ts'
import { toDay } from '../domain/time.ts'
import { refusalOf } from '../store/refusal.ts'

/** Exit code 1, or 2 for a wrong command line. */
export class CommandError extends Error {
  constructor(
    readonly kind: string,
    message: string,
    readonly exitCode: 1 | 2 = 1,
    /** Keeps line breaks. Off for foreign text. */
    readonly hasLines = false,
  ) {
    super(message)
    this.name = 'CommandError'
  }
}

/** The command exits with the code of an agent, or of another program that it ran. */
export class AgentEnded extends Error {
  constructor(readonly exitCode: number) {
    super('the agent has ended')
    this.name = 'AgentEnded'
  }
}

export const usageError = (message: string) => new CommandError('usage', message, 2)

/** @param command such as `tollgate keys create`. */
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
    return usageError(`${sentence}. Run \`${command} --help\` for usage.`)
  }
  const refused = refusalOf(cause)?.reason
  if (refused && refused !== 'broken') return new CommandError(...REFUSED[refused])
  return new CommandError('internal', `Internal error: ${messageOf(cause)}`)
}

interface Refused {
  kind: string
  message: string
  [detail: string]: unknown
}

export function toRefused({ kind, message, ...details }: Refused): CommandError {
  const advice = isKnown(kind) ? ADVICE[kind] : ''
  const text = `${message}${typeof advice === 'string' ? advice : advice(details)}`
  return new CommandError(kind, text, OF_WORDS.has(kind) ? 2 : 1, OF_LINES.has(kind))
}

const isKnown = (kind: string): kind is ServiceFailure['kind'] => Object.hasOwn(ADVICE, kind)

/** Invalid input: exit code 2. */
const OF_WORDS: ReadonlySet<string> = new Set(['bad_config', 'invalid'] satisfies ServiceFailure['kind'][])

/** One problem per line. */
const OF_LINES: ReadonlySet<string> = new Set(['bad_config', 'catalog_invalid'] satisfies ServiceFailure['kind'][])

const REFUSED: Record<'busy' | 'full', [kind: string, message: string]> = {
  busy: ['database_busy', 'Another process is writing to the database. No changes made. Try again.'],
  full: ['disk_full', 'The disk is full. No changes made. Free up space and try again.'],
}

type Details = Readonly<Record<string, unknown>>

/** Appended to the message. */
const ADVICE: Record<ServiceFailure['kind'], string | ((details: Details) => string)> = {
  invalid: '',
  key_not_found: ' List keys: tollgate keys list',
  key_ambiguous: ' Use one of these IDs.',
  key_exists: ' Choose another name, or revoke that key first.',
  key_revoked: " Revoked keys can't be restored. Create a new one: tollgate keys create --name NAME",
  key_expired: ' Extend it first: tollgate keys edit KEY --expires 90d',
  key_hidden: '',
  team_not_found: ' List teams: tollgate teams list. Create one: tollgate teams create --name NAME',
  team_ambiguous: ' Use one of these IDs.',
  team_exists: ' Use that team, or choose another name.',
  too_many_keys: '',
  no_team: '',
  admin_not_found: ' List users: tollgate admin list',
  admin_exists: ' Choose another name.',
  last_owner: ' Create another owner first: tollgate admin create NAME --role owner',
  already_set_up: ' To reset a password: tollgate admin reset NAME',
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
  token_not_found: ' List tokens: tollgate admin token list',
  token_ambiguous: ' Use one of these IDs.',
  token_exists: ' Choose another name, or revoke that token first.',
  alert_not_found: ' List targets: tollgate alerts list',
  alert_exists: ' Choose another name with --name, or remove that target first.',
  request_not_found: ' List requests: tollgate requests list',
  request_removed: ({ createdMs, created_ms: ms = createdMs }) =>
    ` Totals are kept: tollgate usage --since ${typeof ms === 'number' ? toDay(ms) : 'DAY'}`,
  request_ambiguous: ' Use more digits.',
  model_not_found: ' List models: tollgate models list --all',
  list_failed: ({ why }) => (why === 'credential' ? '' : ' To add models by name: --models NAME for each.'),
  provider_unknown: '',
  facts_unusable: '',
  bill_unusable: '',
  ledger_behind: ' Check the disk (tollgate status), then try again.',
  upstream_not_found: ' List upstreams: tollgate upstreams list',
  upstream_disabled: '',
  upstream_exists: ' Choose another name.',
  route_not_found: '',
  declared_elsewhere: '',
  no_earlier_state: '',
  catalog_changed: '',
  catalog_unreadable: ' Choose another file.',
  catalog_invalid: ({ name = 'FILE' }) => `\nFix the file, then check it: tollgate catalog validate ${name}`,
  catalog_not_read: '',
  owners_only: '',
  catalog_missing: '',
  version_not_found: ' List versions: tollgate catalog history',
  undo_conflict: ' List versions: tollgate catalog history',
  secret_unusable: '',
  secret_unchanged: '',
  secret_busy: '',
  restart_failed: '',
  cluster_unusable: '',
  cluster_unreachable: '',
  node_lives: ({ node = 'NODE' }) => ` Stop it first: tollgate cluster drain ${node}`,
  node_not_found: ' List nodes: tollgate cluster status',
  cluster_newer: '',
  cluster_member:
    ' Start the node with --cluster, or take it out of the cluster: tollgate cluster leave. Remove an unfinished export.',
  cluster_foreign: '',
  sums_differ: '',
  folder_taken: ' Choose a new folder, or empty it.',
  data_unwritable: ' Choose another folder with --data, or grant this user write access.',
  data_unreadable: ' Run this as the user running the server.',
  no_folder: ' Pass a folder with --data.',
  no_database: ({ dataFolder = 'FOLDER' }) =>
    ` Start the server once (tollgate serve --data ${dataFolder}), or pass another folder with --data.`,
  database_unusable:
    ' Stop the server, move the file away, and restore a backup (tollgate restore FILE), or pass another folder with --data.',
  database_lost: '',
  database_unwritable:
    ' Run this as the user running the server. If the disk is read-only, copy the data folder first.',
  report_too_long: ' Narrow it with --since and --until, or to one key or model.',
  schema_outdated:
    ' Start this version of the server once (tollgate serve): it migrates the database and keeps a copy in backups/.',
  migrated_earlier: ({ version }) =>
    ` To use a version since then, start it: that needs no rollback. To go back to before ${version}, pass --force.`,
  schema_newer: ({ version }) =>
    ` Use that version. To go back to this one, run \`tollgate rollback\` with ${version ?? 'the newer one'}, or restore an older backup.`,
  no_copy: ({ isMigrated }) =>
    isMigrated ? ' Restore a backup of the older version, with that version: tollgate restore FILE' : '',
  migration_failed: ' Please report it.',
  already_served: ' Stop it first, or pass another data folder with --data.',
  no_room: ' Free up space there, or move the data folder to a larger disk.',
  backup_exists: ' Choose another file, or replace it with --force.',
  backup_unwritable: ' Choose another file.',
  backup_damaged: ' Check the database: tollgate doctor',
  backup_unusable: ' Pass a file written by `tollgate backup`.',
  backup_under_way: '',
  backup_not_found: '',
  backup_findings: ' Restore another backup, or use --force to restore this one anyway.',
  revoked_unknown:
    ' To restore the keys active at the backup, pass --reinstate-revoked. Then review them: tollgate keys list',
  restore_unfinished: ' To finish it, start the server or run restore again.',
  rollback_unfinished: ' To finish it, run `tollgate rollback` again.',
  port_in_use: ' Choose another port with --port.',
  port_forbidden: ' Choose a port above 1023 with --port.',
  no_such_address: ' Choose another address with --host.',
  not_listening: ' Choose another address with --host, or port with --port.',
  bad_config: '',
}

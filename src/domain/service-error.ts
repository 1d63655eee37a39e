/** Errors of administration and startup; `cli/` adds advice. Scripts rely on the kinds. */

/** `line` from 1; `path` such as `upstreams.openai.base_url`, '' = the file. */
export interface CatalogProblem {
  line: number
  path: string
  message: string
}

export type ServiceFailure =
  | { kind: 'invalid'; field: string }
  | { kind: 'key_not_found'; key: string }
  | { kind: 'key_ambiguous'; key: string }
  | { kind: 'key_exists'; key: string; id: string }
  | { kind: 'key_revoked'; key: string; id: string }
  | { kind: 'key_expired'; key: string }
  /** It meters a playground. */
  | { kind: 'key_hidden'; key: string }
  | { kind: 'team_not_found'; team: string }
  | { kind: 'team_ambiguous'; team: string }
  | { kind: 'team_exists'; team: string; id: string }
  | { kind: 'too_many_keys'; most: number }
  /** For members only. */
  | { kind: 'no_team' }
  | { kind: 'admin_not_found'; admin: string }
  | { kind: 'admin_exists'; admin: string }
  | { kind: 'last_owner' }
  | { kind: 'already_set_up' }
  | { kind: 'code_wrong' }
  /** Does not reveal whether name or password. */
  | { kind: 'sign_in_failed' }
  /** Passkeys too. */
  | { kind: 'password_off' }
  /** No pending sign-in matches. */
  | { kind: 'sign_in_ended' }
  | { kind: 'challenge_ended' }
  | { kind: 'passkey_not_found' }
  | { kind: 'too_many_passkeys'; most: number }
  | { kind: 'provider_unavailable' }
  | { kind: 'provider_wrong' }
  | { kind: 'no_role' }
  | { kind: 'admin_disabled'; admin: string }
  | { kind: 'too_many_attempts'; retryAfterMs: number }
  | { kind: 'session_not_found' }
  /** `current` by column name. */
  | { kind: 'revision_conflict'; revision: string; current: Readonly<Record<string, unknown>> }
  /** A limit set by an administrator. */
  | { kind: 'above_ceiling'; field: string; ceiling: unknown }
  | { kind: 'token_not_found'; token: string }
  | { kind: 'token_ambiguous'; token: string }
  | { kind: 'token_exists'; token: string; id: string }
  | { kind: 'alert_not_found'; target: string }
  | { kind: 'alert_exists'; target: string }
  | { kind: 'request_not_found'; request: string }
  /** Older than the retained ledger. */
  | { kind: 'request_removed'; request: string; createdMs: number }
  | { kind: 'request_ambiguous'; request: string }
  | { kind: 'model_not_found'; model: string }
  /** From a provider's model list; `none`: it has no list; `answer`: it sent something else. */
  | { kind: 'list_failed'; why: 'credential' | 'none' | 'answer' | 'unreachable'; field?: 'api_key' | 'base_url' }
  | { kind: 'provider_unknown' }
  | { kind: 'facts_unusable' }
  /** A provider's usage or costs. */
  | { kind: 'bill_unusable' }
  | { kind: 'ledger_behind' }
  | { kind: 'upstream_not_found'; upstream: string }
  | { kind: 'upstream_disabled'; upstream: string }
  | { kind: 'upstream_exists'; upstream: string }
  | { kind: 'route_not_found' }
  /** Would reappear after being deleted. */
  | { kind: 'declared_elsewhere'; origin: string }
  /** Before the manual change. */
  | { kind: 'no_earlier_state'; model: string }
  | { kind: 'catalog_changed' }
  | { kind: 'catalog_unreadable'; path: string }
  | { kind: 'catalog_invalid'; name: string; problems: readonly CatalogProblem[] }
  /** Too slow, or too many at once. */
  | { kind: 'catalog_not_read' }
  | { kind: 'owners_only' }
  /** The built-in catalog would replace a file's. */
  | { kind: 'catalog_missing' }
  | { kind: 'version_not_found'; number: number }
  /** Later changes touched or need entries of the version. */
  | { kind: 'undo_conflict'; number: number; names: readonly string[] }
  | { kind: 'secret_unusable'; path: string }
  | { kind: 'secret_unchanged' }
  | { kind: 'secret_busy' }
  | { kind: 'bad_config'; problems: readonly string[] }
  | { kind: 'data_unwritable'; dataFolder: string }
  | { kind: 'data_unreadable'; dataFolder: string }
  /** There is a file at the path. */
  | { kind: 'no_folder' }
  | { kind: 'no_database'; dataFolder: string }
  | { kind: 'database_unusable'; path: string }
  /** See `ledger/mark.ts`. */
  | { kind: 'database_lost'; dataFolder: string }
  | { kind: 'database_unwritable'; path: string }
  | { kind: 'report_too_long' }
  | { kind: 'schema_outdated' }
  /** `version` of the Tollgate that served it last; null if unknown. */
  | { kind: 'schema_newer'; migrations: readonly string[]; version: string | null }
  /** For a rollback. `isMigrated`: by this version, so there should be one from before. */
  | { kind: 'no_copy'; isMigrated: boolean }
  /** By an earlier version, so an upgrade since then needs no rollback. */
  | { kind: 'migrated_earlier'; version: string }
  | { kind: 'migration_failed'; migration: string; table: string }
  | { kind: 'restart_failed' }
  /** PostgreSQL is too old, or its role lacks permissions. */
  | { kind: 'cluster_unusable' }
  /** A change needs PostgreSQL. `isInDoubt`: the change may have been made. */
  | { kind: 'cluster_unreachable'; isInDoubt: boolean }
  | { kind: 'node_not_found' | 'node_lives'; node: string }
  /** A newer version changed something that this one doesn't know. */
  | { kind: 'cluster_newer' }
  /** The configuration can't be changed without the cluster. */
  | { kind: 'cluster_member' }
  /** Another cluster's data folder or encryption key, or a configuration that would be lost. */
  | { kind: 'cluster_foreign' }
  /** A copied ledger differs from its original. */
  | { kind: 'sums_differ' }
  | { kind: 'folder_taken'; folder: string }
  | { kind: 'already_served'; dataFolder: string }
  | { kind: 'no_room'; folder: string }
  | { kind: 'backup_exists' | 'backup_unwritable' | 'backup_damaged' | 'backup_unusable'; path: string }
  | { kind: 'backup_under_way' }
  | { kind: 'backup_not_found'; name: string }
  | { kind: 'backup_findings'; path: string }
  | { kind: 'revoked_unknown'; dataFolder: string }
  | { kind: 'restore_unfinished' | 'rollback_unfinished'; dataFolder: string }
  | { kind: 'port_in_use' | 'port_forbidden' | 'no_such_address' | 'not_listening'; host: string; port: number }

/** `message` says what happened; presenters add what to do. */
export class ServiceError extends Error {
  constructor(
    readonly failure: ServiceFailure,
    message: string,
  ) {
    super(message)
    this.name = 'ServiceError'
  }
}

/** @param problems all that were found, as sentences. */
export const toBadConfig = (problems: readonly string[]): ServiceError =>
  new ServiceError({ kind: 'bad_config', problems }, problems.join('\n'))

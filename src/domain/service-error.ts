/** Errors of administrative operations and server start, thrown by services, stores, and the server; `cli/` adds advice. Scripts rely on the kinds. */

/** A problem in a catalog: line (from 1), field such as `upstreams.openai.base_url` ('' = the file), and a sentence. */
export interface CatalogProblem {
  line: number
  path: string
  message: string
}

export type ServiceFailure =
  /** An invalid field of the request. */
  | { kind: 'invalid'; field: string }
  | { kind: 'key_not_found'; key: string }
  | { kind: 'key_ambiguous'; key: string }
  | { kind: 'key_exists'; key: string; id: string }
  | { kind: 'key_revoked'; key: string; id: string }
  | { kind: 'key_expired'; key: string }
  /** The key that meters a playground. */
  | { kind: 'key_hidden'; key: string }
  | { kind: 'team_not_found'; team: string }
  | { kind: 'team_ambiguous'; team: string }
  | { kind: 'team_exists'; team: string; id: string }
  | { kind: 'too_many_keys'; most: number }
  /** For members only, who have a team. */
  | { kind: 'no_team' }
  | { kind: 'admin_not_found'; admin: string }
  | { kind: 'admin_exists'; admin: string }
  /** There would be no one left who can manage users. */
  | { kind: 'last_owner' }
  /** There is an owner, who invites all others. */
  | { kind: 'already_set_up' }
  | { kind: 'code_wrong' }
  /** Wrong name or password: which of them is not revealed. */
  | { kind: 'sign_in_failed' }
  /** Passwords and passkeys are disabled. */
  | { kind: 'password_off' }
  /** No pending sign-in matches the browser's return from the identity provider. */
  | { kind: 'sign_in_ended' }
  /** The passkey challenge has expired or was used. */
  | { kind: 'challenge_ended' }
  | { kind: 'passkey_not_found' }
  | { kind: 'too_many_passkeys'; most: number }
  | { kind: 'provider_unavailable' }
  /** The identity provider's response is unusable. */
  | { kind: 'provider_wrong' }
  /** The identity provider's claims grant no role here. */
  | { kind: 'no_role' }
  | { kind: 'admin_disabled'; admin: string }
  | { kind: 'too_many_attempts'; retryAfterMs: number }
  | { kind: 'session_not_found' }
  /** The edit was based on an older state; `current` is the present one, by column name. */
  | { kind: 'revision_conflict'; revision: string; current: Readonly<Record<string, unknown>> }
  /** A member may not raise a limit that an administrator set on their key. */
  | { kind: 'above_ceiling'; field: string; ceiling: unknown }
  | { kind: 'token_not_found'; token: string }
  | { kind: 'token_ambiguous'; token: string }
  | { kind: 'token_exists'; token: string; id: string }
  | { kind: 'request_not_found'; request: string }
  /** The request's ID is older than the retained ledger. */
  | { kind: 'request_removed'; request: string; createdMs: number }
  | { kind: 'request_ambiguous'; request: string }
  | { kind: 'model_not_found'; model: string }
  /** The provider rejected the credential, has no list of models, sent something else, or did not respond. */
  | { kind: 'list_failed'; why: 'credential' | 'none' | 'answer' | 'unreachable' }
  | { kind: 'provider_unknown' }
  /** A list of public model facts that is unreadable or invalid. */
  | { kind: 'facts_unusable' }
  | { kind: 'upstream_not_found'; upstream: string }
  | { kind: 'upstream_disabled'; upstream: string }
  | { kind: 'upstream_exists'; upstream: string }
  | { kind: 'route_not_found' }
  /** Not owned by the administrator layer: it would reappear after being deleted. */
  | { kind: 'declared_elsewhere'; origin: string }
  /** Its state before the manual change is not recorded. */
  | { kind: 'no_earlier_state'; model: string }
  /** Someone else changed it first. */
  | { kind: 'catalog_changed' }
  | { kind: 'catalog_unreadable'; path: string }
  | { kind: 'catalog_invalid'; name: string; problems: readonly CatalogProblem[] }
  /** Reading took too long, or too many are being read. */
  | { kind: 'catalog_not_read' }
  /** Only owners may do this. */
  | { kind: 'owners_only' }
  /** The built-in catalog would replace what a file has declared. */
  | { kind: 'catalog_missing' }
  /** Unknown catalog version, or no longer kept. */
  | { kind: 'version_not_found'; number: number }
  /** The encryption key of credentials. */
  | { kind: 'secret_unusable'; path: string }
  | { kind: 'secret_unchanged' }
  | { kind: 'secret_busy' }
  | { kind: 'bad_config'; problems: readonly string[] }
  | { kind: 'data_unwritable'; dataFolder: string }
  | { kind: 'data_unreadable'; dataFolder: string }
  /** A file is in the data folder's place. */
  | { kind: 'no_folder' }
  | { kind: 'no_database'; dataFolder: string }
  | { kind: 'database_unusable'; path: string }
  /** Known from what the database left behind: `ledger/mark.ts`. */
  | { kind: 'database_lost'; dataFolder: string }
  | { kind: 'database_unwritable'; path: string }
  | { kind: 'report_too_long' }
  | { kind: 'schema_outdated' }
  | { kind: 'schema_newer'; migrations: readonly string[] }
  | { kind: 'migration_failed'; migration: string; table: string }
  | { kind: 'already_served'; dataFolder: string }
  /** Not enough disk space for what the operation writes. */
  | { kind: 'no_room'; folder: string }
  | { kind: 'backup_exists' | 'backup_unwritable' | 'backup_damaged' | 'backup_unusable'; path: string }
  /** A backup is being created; another must wait. */
  | { kind: 'backup_under_way' }
  | { kind: 'backup_not_found'; name: string }
  /** A verification of the backup has findings. */
  | { kind: 'backup_findings'; path: string }
  /** Revocations in the database to be replaced cannot be read. */
  | { kind: 'revoked_unknown'; dataFolder: string }
  | { kind: 'restore_unfinished'; dataFolder: string }
  | { kind: 'port_in_use' | 'port_forbidden' | 'no_such_address' | 'not_listening'; host: string; port: number }

/** `message` says what happened in whole sentences; whoever presents it adds what to do. */
export class ServiceError extends Error {
  constructor(
    readonly failure: ServiceFailure,
    message: string,
  ) {
    super(message)
    this.name = 'ServiceError'
  }
}

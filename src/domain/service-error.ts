/**
 * What keeps an operation of an administrator, or a start of the server, from being done: thrown by the services (keys,
 * teams, catalogue), the stores and the server, and put into words with advice by whoever presents it (`cli/`). A kind
 * is a name that scripts rely on.
 */

/** One problem of a catalogue: the line, from 1, the field such as `upstreams.openai.base_url` ('' = the file), a sentence. */
export interface CatalogProblem {
  line: number
  path: string
  message: string
}

export type ServiceFailure =
  /** A field of what was asked for breaks a rule. */
  | { kind: 'invalid'; field: string }
  | { kind: 'key_not_found'; key: string }
  | { kind: 'key_ambiguous'; key: string }
  | { kind: 'key_exists'; key: string; id: string }
  | { kind: 'key_revoked'; key: string; id: string }
  | { kind: 'key_expired'; key: string }
  /** It is what a playground is metered by. */
  | { kind: 'key_hidden'; key: string }
  | { kind: 'team_not_found'; team: string }
  | { kind: 'team_ambiguous'; team: string }
  | { kind: 'team_exists'; team: string; id: string }
  | { kind: 'too_many_keys'; most: number }
  /** What was asked for is for members, who have one. */
  | { kind: 'no_team' }
  | { kind: 'admin_not_found'; admin: string }
  | { kind: 'admin_exists'; admin: string }
  /** It would leave nobody who may change administrators. */
  | { kind: 'last_owner' }
  /** There is an owner already: whoever is one makes the others. */
  | { kind: 'already_set_up' }
  | { kind: 'code_wrong' }
  /** Name or password: nobody is told which. */
  | { kind: 'sign_in_failed' }
  /** Nobody signs in with a password here, nor with a passkey. */
  | { kind: 'password_off' }
  /** Nothing waits for whoever comes back from an identity provider. */
  | { kind: 'sign_in_ended' }
  /** What a passkey was to answer to has ended, or was answered already. */
  | { kind: 'challenge_ended' }
  | { kind: 'passkey_not_found' }
  | { kind: 'too_many_passkeys'; most: number }
  | { kind: 'provider_unavailable' }
  /** An identity provider has said what cannot be used. */
  | { kind: 'provider_wrong' }
  /** By what an identity provider says of somebody, they may do nothing here. */
  | { kind: 'no_role' }
  | { kind: 'admin_disabled'; admin: string }
  | { kind: 'too_many_attempts'; retryAfterMs: number }
  | { kind: 'session_not_found' }
  /** An edit was made from an older state; `current` is the present one, by the names of columns. */
  | { kind: 'revision_conflict'; revision: string; current: Readonly<Record<string, unknown>> }
  /** A member may not lift what somebody else has set on a key of theirs. */
  | { kind: 'above_ceiling'; field: string; ceiling: unknown }
  | { kind: 'token_not_found'; token: string }
  | { kind: 'token_ambiguous'; token: string }
  | { kind: 'token_exists'; token: string; id: string }
  | { kind: 'request_not_found'; request: string }
  /** By its id it is older than what is kept of the ledger, if it ever was on record. */
  | { kind: 'request_removed'; request: string; createdMs: number }
  | { kind: 'request_ambiguous'; request: string }
  | { kind: 'model_not_found'; model: string }
  /** A provider was asked for its list of models, and: refused the credential; has none; sent something else; did not answer. */
  | { kind: 'list_failed'; why: 'credential' | 'none' | 'answer' | 'unreachable' }
  | { kind: 'provider_unknown' }
  /** A list of public facts that cannot be read, or is none. */
  | { kind: 'facts_unusable' }
  | { kind: 'upstream_not_found'; upstream: string }
  | { kind: 'upstream_disabled'; upstream: string }
  | { kind: 'upstream_exists'; upstream: string }
  | { kind: 'route_not_found' }
  /** It is not an administrator's, and would come back if it were deleted. */
  | { kind: 'declared_elsewhere'; origin: string }
  /** What it was like before it was changed is not on record. */
  | { kind: 'no_earlier_state'; model: string }
  /** Somebody else was faster. */
  | { kind: 'catalog_changed' }
  | { kind: 'catalog_unreadable'; path: string }
  | { kind: 'catalog_invalid'; name: string; problems: readonly CatalogProblem[] }
  /** It took too long to read, or too many are read. */
  | { kind: 'catalog_not_read' }
  /** What whoever is no owner may not do, though they may do the like. */
  | { kind: 'owners_only' }
  /** The built-in catalogue was to replace what a file has declared. */
  | { kind: 'catalog_missing' }
  /** There is no such state of the catalogue, or it is not kept any more. */
  | { kind: 'version_not_found'; number: number }
  /** The file that opens credentials. */
  | { kind: 'secret_unusable'; path: string }
  | { kind: 'secret_unchanged' }
  | { kind: 'secret_busy' }
  | { kind: 'bad_config'; problems: readonly string[] }
  | { kind: 'data_unwritable'; dataFolder: string }
  | { kind: 'data_unreadable'; dataFolder: string }
  /** What should be a data folder is a file. */
  | { kind: 'no_folder' }
  | { kind: 'no_database'; dataFolder: string }
  | { kind: 'database_unusable'; path: string }
  /** What may be told from what it has left: `ledger/mark.ts`. */
  | { kind: 'database_lost'; dataFolder: string }
  | { kind: 'database_unwritable'; path: string }
  | { kind: 'report_too_long' }
  | { kind: 'schema_outdated' }
  | { kind: 'schema_newer'; migrations: readonly string[] }
  | { kind: 'migration_failed'; migration: string; table: string }
  | { kind: 'already_served'; dataFolder: string }
  /** The disk of a folder could not hold what an operation makes there. */
  | { kind: 'no_room'; folder: string }
  | { kind: 'backup_exists' | 'backup_unwritable' | 'backup_damaged' | 'backup_unusable'; path: string }
  /** One is being made: another has to wait. */
  | { kind: 'backup_under_way' }
  | { kind: 'backup_not_found'; name: string }
  /** An audit of a backup that was to be restored has findings. */
  | { kind: 'backup_findings'; path: string }
  /** Nobody can tell what the database that was to be replaced has revoked. */
  | { kind: 'revoked_unknown'; dataFolder: string }
  | { kind: 'restore_unfinished'; dataFolder: string }
  | { kind: 'port_in_use' | 'port_forbidden' | 'no_such_address' | 'not_listening'; host: string; port: number }

/** `message` says what happened in whole sentences, for logs and for those who present it; what to do is left to them. */
export class ServiceError extends Error {
  constructor(
    readonly failure: ServiceFailure,
    message: string,
  ) {
    super(message)
    this.name = 'ServiceError'
  }
}

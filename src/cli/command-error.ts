/**
 * How a command fails: a kind for scripts, a sentence that says what happened and what to do, an exit code. `program.ts`
 * prints it. Failures of the services get their advice here.
 */
import type { ServiceError, ServiceFailure } from '../domain/service-error.ts'

/** A command that could not be done. Exit code 1, or 2 where the words on the command line were wrong. */
export class CommandError extends Error {
  constructor(
    readonly kind: string,
    message: string,
    readonly exitCode: 1 | 2 = 1,
  ) {
    super(message)
    this.name = 'CommandError'
  }
}

/** Makes the error for a wrong value of an option. */
export const usageError = (message: string) => new CommandError('usage', message, 2)

/** Presents the failure of a service, with what to do about it. */
export function toCommandError({ failure, message }: ServiceError): CommandError {
  const { kind } = failure
  return new CommandError(kind, `${message}${toAdvice(failure)}`, kind === 'bad_config' ? 2 : 1)
}

/** What to do, as it is appended to what happened; '' where that says it already. */
function toAdvice(failure: ServiceFailure): string {
  switch (failure.kind) {
    case 'key_not_found':
      return ' See the ids with: tollgate keys list'
    case 'key_ambiguous':
      return ' Name the key by its id: tollgate keys list'
    case 'team_not_found':
      return ' See them with: tollgate teams list. Make one with: tollgate teams create --name NAME'
    case 'team_exists':
      return ' Use that one, or choose another name.'
    case 'catalog_unreadable':
      return ' Name another file.'
    case 'catalog_invalid':
      return `\nCorrect the file and check it with: tollgate catalog validate ${failure.name}`
    case 'catalog_missing':
      return ' Name the file: tollgate catalog apply FILE'
    case 'data_unwritable':
      return ' Choose another one with --data, or give this user the right to write there.'
    case 'no_database':
      return ` Start the server once (tollgate serve --data ${failure.dataFolder}) or name another folder with --data.`
    case 'database_unusable':
      return ' If the file is damaged, restore a backup.'
    case 'schema_outdated':
      return ' Start the server of this version once (tollgate serve): it keeps a copy in backups/ and brings the database up to date.'
    case 'schema_newer':
      return ' Use that version, or restore a backup from before it.'
    case 'migration_failed':
      return ' Please report it.'
    case 'already_served':
      return ' Stop it first, or give this one a data folder of its own with --data.'
    case 'port_in_use':
      return ' Choose another port with --port.'
    case 'port_forbidden':
      return ' Choose a port above 1023 with --port.'
    case 'no_such_address':
      return ' Choose another one with --host.'
    case 'not_listening':
    case 'bad_config':
      return ''
  }
}

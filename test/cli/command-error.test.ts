/** Messages of commands for failures below them: what happened, and what to do. */
import { expect, test } from 'bun:test'
import { toCommandError } from '../../src/cli/command-error.ts'
import { ServiceError, type ServiceFailure } from '../../src/domain/service-error.ts'

const scenarios: [ServiceFailure, 1 | 2, RegExp][] = [
  [{ kind: 'schema_outdated' }, 1, /^It failed\. Start this version of the server once \(tollgate serve\)/],
  [
    { kind: 'schema_newer', migrations: ['9'], version: '1.2.3' },
    1,
    /^It failed\. Use that version\. To go back to this one, run `tollgate rollback` with 1\.2\.3, or restore/,
  ],
  [
    { kind: 'already_served', dataFolder: '/d' },
    1,
    /^It failed\. Stop it first, or pass another data folder with --data\.$/,
  ],
  [{ kind: 'port_in_use', host: 'h', port: 1 }, 1, /^It failed\. Choose another port with --port\.$/],
  [{ kind: 'data_unreadable', dataFolder: '/d' }, 1, /^It failed\. Run this as the user running the server\.$/],
  [{ kind: 'data_unwritable', dataFolder: '/d' }, 1, /^It failed\. Choose another folder with --data/],
  [
    { kind: 'catalog_invalid', name: 'c.yaml', problems: [] },
    1,
    /^It failed\.\n.*: tollgate catalog validate c\.yaml$/,
  ],
  [{ kind: 'bad_config', problems: [] }, 2, /^It failed\.$/],
]

test.each(scenarios)('%o', (failure, exitCode, sentence) => {
  const error = toCommandError(new ServiceError(failure, 'It failed.'))
  expect(error).toMatchObject({ kind: failure.kind, exitCode, message: expect.stringMatching(sentence) })
})

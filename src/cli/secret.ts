/** `tollgate secret rotate`: the running server does it, with its own environment; where none runs, this process. */
import { count } from '../domain/words.ts'
import { rotateSecret } from '../store/rotate-secret.ts'
import { createVault } from '../store/vault.ts'
import { CommandError } from './command-error.ts'
import { type Context, printJson, toPrintable, withStore } from './io.ts'
import { findServer, rotateThroughServer } from './live.ts'

export async function rotate(io: Context): Promise<void> {
  const { dataFolder, environment } = io
  const found = await findServer(dataFolder)
  if (found.kind === 'silent') throw new CommandError('server_silent', `The server cannot be asked: ${found.why}.`)
  const { credentials, unopened } =
    found.kind === 'server'
      ? await rotateThroughServer(dataFolder)
      : await withStore(io, {}, (store) =>
          rotateSecret(
            { dataFolder, store, vault: createVault(dataFolder, environment) },
            { actor: 'cli', nowMs: io.nowMs() },
          ),
        )
  if (io.json) return printJson(io, { credentials, unopened })
  io.stdout(
    `${count(credentials, 'credential')} sealed anew. What sealed before opens backups of before alone: keep it with those.\n`,
  )
  for (const id of unopened) io.stderr(`That of ${toPrintable(id)} did not open before either: type it in again.\n`)
}

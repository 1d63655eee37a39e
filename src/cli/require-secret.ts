/** Whether what is typed in here can be opened by the server of the data folder, which may have TOLLGATE_SECRET in an environment of its own. */
import { CLEARED, createVault, inspectVault } from '../store/vault.ts'
import { CommandError } from './command-error.ts'
import { askVault, findServer } from './control-client.ts'
import { type Context, withStore } from './io.ts'

/** Called before a credential is sealed. Throws where that would be by another secret than the server's, or by one that is made although others exist. */
export async function requireSecret(io: Context): Promise<void> {
  const { dataFolder, environment } = io
  const found = await findServer(dataFolder)
  const server = found.kind === 'server' ? await askVault(dataFolder) : null
  await withStore(io, { readonly: true }, async (store) => {
    const own = await inspectVault(store, dataFolder, environment)
    const isFile = own.where !== 'TOLLGATE_SECRET'
    if (server !== null) {
      if (server.sealed_by === own.sealed_by) return
      const isServersFile = server.where !== 'TOLLGATE_SECRET'
      const advice =
        isServersFile && !isFile ? 'Unset TOLLGATE_SECRET here' : 'Give TOLLGATE_SECRET here as the server has it'
      throw refuse(
        `It would be sealed by another secret than that of the running server, ${server.where}. ${advice}, or type it in in the dashboard.`,
      )
    }
    // What the file seals, every server of this folder opens.
    if (isFile && own.sealed_by !== null) return
    const sealed = (await store.readSealed()).filter((one) => one.sealed !== CLEARED)
    const opened = [...(await createVault(dataFolder, environment).open(sealed)).values()].flat()
    if (opened.length === 0 || opened.some((one) => 'credential' in one)) return
    throw refuse(
      'It would be sealed by another secret than what was typed in before, none of which opens here. Give TOLLGATE_SECRET here as the server has it, or put the file `secret` of the data folder back; where that is lost, start the server first, and do this again.',
    )
  })
}

const refuse = (message: string) => new CommandError('other_secret', `${message} Nothing was changed.`)

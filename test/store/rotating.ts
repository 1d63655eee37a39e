/** Replaces the secret of a data folder, and is killed at a step of it: `bun rotating.ts FOLDER STEP`. */

import { createAlertStore } from '../../src/store/sqlite/alert-store.ts'
import { openForCommand } from '../../src/store/sqlite/open.ts'
import { createVault, rotateSecret } from '../../src/store/vault.ts'

const [dataFolder = '', end] = process.argv.slice(2)
const { sqlite, store } = openForCommand(dataFolder, {})
await rotateSecret(
  {
    dataFolder,
    store,
    alerts: createAlertStore(sqlite),
    vault: createVault(dataFolder, process.env),
    onStep: (step) => step === end && process.kill(process.pid, 'SIGKILL'),
  },
  { actor: 'test', nowMs: 1 },
)

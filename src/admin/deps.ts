/** What the controllers of the admin API work with. */
import type { FileThread } from '../catalog/file-thread.ts'
import type { LookUp } from '../catalog/remote.ts'
import type { SignInDeps } from '../identity/sign-in.ts'
import type { Log } from '../log.ts'
import type { ConfigStore } from '../store/config-store.ts'
import type { AccessDeps } from './access.ts'
import type { Reports } from './reports.ts'
import type { Serving } from './serving.ts'

export interface AdminDeps extends AccessDeps, Omit<SignInDeps, 'store'> {
  store: ConfigStore
  reports: Reports
  serving: Serving
  catalogFiles: FileThread
  lookUp: LookUp
  /** Where a request comes from, for people to read and attempts to be counted by. */
  addressOf(request: Request): string
  log: Log
}

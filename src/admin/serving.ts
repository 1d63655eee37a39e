/** What the running server goes by, as the admin API tells of it and has it renewed. */

import type { SettingText } from '../config.ts'
import type { ServerStatus } from '../documents/server.ts'
import type { UpstreamStatus, UpstreamTest } from '../documents/upstream.ts'
import type { ListedModel } from '../domain/model-server.ts'
import type { Model } from '../domain/models.ts'
import type { Environment, Key, Snapshot } from '../domain/snapshot.ts'

export interface Serving {
  /** How it is doing. */
  status(): Promise<ServerStatus>
  /** What it was started with. */
  settings: readonly SettingText[]
  /** Every upstream that is enabled, with what is known of it; null where no server runs. */
  upstreams(): UpstreamStatus[] | null
  /** Where credentials are looked for that no running server knows of. */
  environment: Environment
  /** What requests go by now. */
  readSnapshot(): Promise<Snapshot>
  /** The models that a key of this team, itself without restrictions, is told of. */
  modelsOf(teamId: string): Model[]
  /** Asks an upstream now, at no cost; null where the server has none of that id that is enabled. */
  test(id: string): Promise<UpstreamTest | null>
  /** Asks an upstream which models it has; null where the server has none of that id that is enabled. Throws `list_failed`. */
  models(id: string): Promise<ListedModel[] | null>
  /** The key that an administrator's playground is metered by, in force or not; null where there is none yet. */
  playgroundKey(adminId: string): Key | null
  /** Answers a chat request as `/v1/chat/completions` does, by a key that needs no proof. Never throws. */
  chat(request: Request, headers: Readonly<Record<string, string | undefined>>, key: Key): Promise<Response>
  /** Takes in what was just changed: it holds, and is told of, from then on. */
  refresh(): Promise<void>
}

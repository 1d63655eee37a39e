/**
 * Chat and the list of models for whoever owns the data folder. They come over the control socket, which nobody else can open,
 * and need no key. What they ask is on record like any request, under the id `system`, which no key has.
 */
import { Elysia } from 'elysia'
import { NO_LIMITS } from '../domain/limits.ts'
import type { Key } from '../domain/snapshot.ts'
import type { HandleDeps } from '../gateway/handle.ts'
import { onlyAt } from '../routing/access.ts'
import { ENDPOINTS, endpointController, handleOwned } from './endpoints.ts'
import type { Listener } from './instance.ts'
import { listModels, type ModelsDeps, modelsController } from './models.ts'

/** Who could make a key of any kind is held to no limit. */
const SYSTEM: Key = {
  id: 'system',
  name: 'system',
  scope: 'all',
  teamId: null,
  expiresMs: null,
  revokedMs: null,
  ownerId: null,
  shareId: 'system',
  models: [],
  allowedIps: [],
  limits: NO_LIMITS,
  budget: null,
}

const nowhere = () => null

/**
 * Serves `/system/v1/chat/completions` and `/system/v1/models`, and the same below `/system/upstreams/<id>`, where that upstream alone is
 * asked. @param app the instance that listens on the socket.
 */
export const systemController = (deps: HandleDeps & ModelsDeps, app: Listener) =>
  new Elysia({ name: 'system', prefix: '/system' })
    .use(endpointController(deps, app, nowhere, ENDPOINTS.chat, SYSTEM))
    .use(modelsController(deps, nowhere, SYSTEM))
    .get('/upstreams/:id/v1/models', ({ params: { id } }) => ({
      object: 'list',
      data: listModels({ ...deps, live: at(deps, id) }, SYSTEM),
    }))
    .post(
      '/upstreams/:id/v1/chat/completions',
      ({ request, headers, params: { id } }) =>
        handleOwned({ ...deps, live: at(deps, id) }, app, request, headers, SYSTEM),
      { parse: 'none' },
    )

const at = ({ live }: HandleDeps, id: string) => ({ snapshot: onlyAt(live.snapshot, id) })

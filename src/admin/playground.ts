/**
 * `POST /admin/api/playground`: `/v1/chat/completions` for signed-in users, with a key that no one else can use. Below it,
 * such as `/playground/speech`, are the endpoints that aren't chats.
 */
import { Type } from '@sinclair/typebox'
import { Elysia } from 'elysia'
import { keysOf } from '../domain/json.ts'
import { MAKES } from '../domain/models.ts'
import type { Key } from '../domain/snapshot.ts'
import { ENDPOINT_PATHS } from '../domain/task.ts'
import { OPERATIONS, toUnkeyed } from '../http/openapi/operations.ts'
import { takePlaygroundKey } from '../identity/own-keys.ts'
import type { Principal } from '../identity/principal.ts'
import { access, PLAYGROUND, requireSession } from './access.ts'
import type { AdminDeps } from './deps.ts'
import { AdminError } from './errors.ts'
import { exactly } from './schema.ts'

const Upstream = exactly({
  upstream: Type.Optional(
    Type.String({ maxLength: 100, description: 'Uses only routes to this upstream, to test one. Editors only.' }),
  ),
})

export function playgroundController({ identity, serving, now }: AdminDeps) {
  const keyOf = async ({ id, teamId }: Principal): Promise<Key> => {
    const known = serving.playgroundKey(id)
    if (known && known.revokedMs === null && known.teamId === teamId) return known
    const taken = await takePlaygroundKey(identity, id, { actor: id, nowMs: now() })
    // Its team and limits must be effective before its first request.
    await serving.refresh()
    const key = taken && serving.playgroundKey(id)
    if (key && key.revokedMs === null) return key
    throw new AdminError(401, 'signed_out', 'Sign in first.')
  }

  const app = new Elysia({ name: 'playground' }).use(access())
  for (const endpoint of ['chat', ...keysOf(MAKES)] as const)
    app.post(
      endpoint === 'chat' ? PLAYGROUND : `${PLAYGROUND}/${endpoint}`,
      async ({ request, headers, principal, query: { upstream = null } }) => {
        requireSession(principal)
        if (upstream !== null && principal.role !== 'owner' && principal.role !== 'editor')
          throw new AdminError(403, 'role_too_small', 'Only owners and editors can choose the upstream.')
        return serving.play(endpoint, request, headers, await keyOf(principal), upstream)
      },
      {
        route: {
          least: 'member',
          except: 'viewer',
          summary: `${OPERATIONS[endpoint].summary}, as \`${ENDPOINT_PATHS[endpoint]}\` does`,
          description:
            "Uses the user's playground key, which has no secret and is metered, limited, and recorded like any other. Not available to viewers. After authentication, errors have the `/v1` format.",
          answer: null,
          operation: toUnkeyed(endpoint),
          ownErrors: { no_session: 403, role_too_small: 403 },
        },
        query: Upstream,
        parse: 'none',
      },
    )
  return app
}

/** The admin API of a server with all routes; created lazily on its first request. */
import { Elysia } from 'elysia'
import { API_PATH } from './access.ts'
import { alertsController } from './alerts.ts'
import { attentionController } from './attention.ts'
import { catalogController } from './catalog.ts'
import { clusterController } from './cluster.ts'
import type { AdminDeps, GivenDeps } from './deps.ts'
import { createAdmin } from './instance.ts'
import { keysController } from './keys.ts'
import { modelsController } from './models.ts'
import { type Described, openApiController } from './openapi.ts'
import { ownController } from './own.ts'
import { passkeysController } from './passkeys.ts'
import { adminsController, tokensController } from './people.ts'
import { playgroundController } from './playground.ts'
import { requestsController } from './requests.ts'
import { backupsController, settingsController, statusController } from './server.ts'
import { oidcController, sessionController } from './sign-in.ts'
import { teamsController } from './teams.ts'
import { upstreamsController } from './upstreams.ts'
import { auditController, failuresController, usageController } from './usage.ts'

const routesOf = (deps: AdminDeps, describe: () => Described) =>
  new Elysia({ prefix: API_PATH, normalize: false })
    .use(sessionController(deps))
    .use(passkeysController(deps))
    .use(oidcController(deps))
    .use(keysController(deps))
    .use(ownController(deps))
    .use(teamsController(deps))
    .use(adminsController(deps))
    .use(tokensController(deps))
    .use(settingsController(deps))
    .use(statusController(deps))
    .use(clusterController(deps))
    .use(attentionController(deps))
    .use(alertsController(deps))
    .use(backupsController(deps))
    .use(modelsController(deps))
    .use(upstreamsController(deps))
    .use(catalogController(deps))
    .use(usageController(deps))
    .use(failuresController(deps))
    .use(requestsController(deps))
    .use(auditController(deps))
    .use(openApiController(describe))

/** For the typed client. */
export type AdminApi = ReturnType<typeof routesOf>

export const createAdminApi = (deps: GivenDeps) => createAdmin(deps, routesOf, playgroundController)

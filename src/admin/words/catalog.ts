/** Models, upstreams, and the catalogue that declares them. */
import { Type } from '@sinclair/typebox'
import {
  Applied,
  CatalogReverted,
  EditedModel,
  EditedUpstream,
  ExportedCatalog,
  FoundModels,
  Plan,
  RefreshedCatalog,
  ShownVersion,
  Version,
} from '../../documents/schemas/catalog.ts'
import { Alias, ListedModel, WholeModel } from '../../documents/schemas/models.ts'
import { Found, Preset, TestedUpstream, Upstream } from '../../documents/schemas/upstreams.ts'
import type { Words } from './route-words.ts'

const APPLYING = ['catalog_invalid', 'catalog_not_read', 'catalog_unreadable', 'owners_only'] as const

export const CATALOG = {
  'GET /models': {
    summary: 'Lists models with prices, routes and readiness, and their aliases',
    answer: Type.Object({ models: Type.Array(ListedModel), aliases: Type.Array(Alias) }),
  },
  'GET /models/:slug': {
    summary: 'Shows a model with every price that it had',
    description: 'Slugs have a slash, which is escaped: `openai%2Fgpt-5`. An alias does, too.',
    answer: WholeModel,
    errors: ['model_not_found'],
  },
  'PATCH /models/:slug': {
    edits: true,
    summary: 'Changes a model by hand, or plans that',
    answer: EditedModel,
    errors: ['model_not_found'],
  },
  'POST /models/:slug/reset': {
    edits: true,
    summary: 'Gives a model back to the file or the facts that it is from',
    answer: EditedModel,
    errors: ['model_not_found', 'no_earlier_state', 'invalid'],
  },
  'PUT /models/:slug/routes/:upstream/:upstream_model': {
    edits: true,
    summary: 'Makes a route of a model, or changes it, or plans that',
    answer: EditedModel,
    errors: ['model_not_found', 'upstream_not_found'],
  },
  'DELETE /models/:slug/routes/:upstream/:upstream_model': {
    edits: true,
    summary: 'Deletes a route that was made by hand',
    answer: EditedModel,
    errors: ['model_not_found', 'route_not_found', 'declared_elsewhere'],
  },
  'POST /upstreams': {
    summary: 'Sets an upstream up, or plans that',
    description: 'A credential is kept sealed, and no answer has it.',
    answer: EditedUpstream,
    errors: ['upstream_exists', 'secret_unusable', 'catalog_changed'],
  },
  'PATCH /upstreams/:id': {
    edits: true,
    summary: 'Changes an upstream, or plans that',
    description: 'Where it goes somewhere else, its credential is to be given again.',
    answer: EditedUpstream,
    errors: ['upstream_not_found', 'catalog_changed', 'secret_unusable'],
  },
  'DELETE /upstreams/:id': {
    edits: true,
    summary: 'Deletes an upstream that was made by hand, with the routes that lead to it',
    answer: EditedUpstream,
    errors: ['upstream_not_found', 'declared_elsewhere'],
  },
  'GET /upstreams': {
    summary: 'Lists upstreams with their health',
    answer: Type.Object({ upstreams: Type.Array(Upstream) }),
  },
  'GET /presets': {
    summary: 'Lists the providers that an upstream can be set up as by name',
    answer: Type.Object({ presets: Type.Array(Preset) }),
  },
  'GET /upstreams/:id': {
    summary: 'Shows an upstream; never its credential',
    answer: Upstream,
    errors: ['upstream_not_found'],
  },
  'POST /upstreams/discover': {
    summary: 'Looks for model servers on the machine of the server, and for providers whose variable it has',
    description:
      'It asks the usual ports of loopback, a second at most, what loads nothing. It adds nothing: POST /upstreams does, by the preset and, where it is elsewhere, the address.',
    answer: Found,
  },
  'POST /upstreams/:id/models': {
    summary: 'Adds models that an upstream lists, or plans that',
    description:
      'Asks it for its list, which costs nothing. What is there already stays as it is, or gets a further route, behind those that it has. `NAME=SLUG` has a model called otherwise.',
    answer: FoundModels,
    errors: ['upstream_not_found', 'upstream_disabled', 'list_failed'],
  },
  'POST /upstreams/:id/test': {
    summary: 'Asks an upstream for its models, which costs nothing',
    answer: TestedUpstream,
    errors: ['upstream_not_found', 'upstream_disabled'],
  },
  'GET /catalog': {
    summary: 'Exports the catalogue',
    answer: ExportedCatalog,
    errors: ['catalog_not_read'],
  },
  'POST /catalog/plan': { summary: 'Tells what a catalogue would change', answer: Plan, errors: APPLYING },
  'POST /catalog/apply': {
    edits: true,
    summary: 'Applies a catalogue',
    description: 'What files of models in the data folder declare stays, whether it is pruned or not.',
    answer: Applied,
    errors: APPLYING,
  },
  'POST /catalog/refresh': {
    summary: 'Brings what was found out up to date with newer public facts and prices, or plans that',
    description:
      'They are read from models.dev, or from where TOLLGATE_FACTS of the server says. What a file, an administrator or the list of a provider says stays.',
    answer: RefreshedCatalog,
    errors: ['facts_unusable', 'catalog_not_read'],
  },
  'GET /catalog/history': {
    summary: 'Lists earlier states of the catalogue',
    answer: Type.Object({ versions: Type.Array(Version) }),
  },
  'GET /catalog/history/:number': {
    summary: 'Shows what made a state of the catalogue',
    answer: ShownVersion,
    errors: ['version_not_found'],
  },
  'POST /catalog/revert': {
    edits: true,
    summary: 'Makes the catalogue what it was, or plans that',
    answer: CatalogReverted,
    errors: ['version_not_found', 'owners_only'],
  },
} satisfies Words

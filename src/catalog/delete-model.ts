/** Deletes a model whose server is started here, with the upstream that is there for it alone. Called by `models remove`. */
import { ServiceError } from '../domain/service-error.ts'
import type { ConfigStore } from '../store/config-store.ts'
import { type Decision, type EditBy, type Edited, editCatalog, NO_WRITE } from './edit.ts'
import { findModel } from './find.ts'

/**
 * Throws `model_not_found`, `declared_elsewhere` where no server is started for it, and `invalid` where an alias stands for it.
 */
export function deleteServedModel(store: ConfigStore, slug: string, by: EditBy): Promise<Edited> {
  return editCatalog(store, by, { action: 'models.delete', subject: slug }, (rows): Decision => {
    const model = findModel({ ...rows, aliases: [] }, slug)
    const routes = rows.routes.filter((route) => route.model === slug)
    const upstreams = rows.upstreams.filter(
      ({ id, options }) =>
        options.process !== undefined &&
        routes.some(({ upstream }) => upstream === id) &&
        !rows.routes.some((route) => route.upstream === id && route.model !== slug),
    )
    if (upstreams.length === 0)
      throw new ServiceError(
        { kind: 'declared_elsewhere', origin: model.origin },
        `${slug} was not added from a file: its upstream goes with tollgate upstreams remove, or where a catalogue declares it.`,
      )
    const alias = rows.aliases.find((one) => one.model === slug)
    if (alias)
      throw new ServiceError(
        { kind: 'invalid', field: 'slug' },
        `${alias.alias} stands for ${slug}: take that away first.`,
      )
    return {
      write: {
        ...NO_WRITE,
        models: { ...NO_WRITE.models, delete: [model] },
        upstreams: { ...NO_WRITE.upstreams, delete: upstreams },
        routes: { ...NO_WRITE.routes, delete: routes },
      },
    }
  })
}

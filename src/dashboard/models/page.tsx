/** The list of models, filtered by the URL. */

import type { ComponentChildren } from 'preact'
import type { ShownModel } from '../../documents/model.ts'
import type { ShownUpstream } from '../../documents/upstream.ts'
import { toFigureText } from '../../domain/model-server.ts'
import { named, query, setQuery, toHref, toHrefWith } from '../address/address.ts'
import { may } from '../api/session.ts'
import { toExactCount, toPercent, toPrices } from '../figures/figures.ts'
import { Page } from '../shell/page.tsx'
import { ButtonLink, Code } from '../ui/controls.tsx'
import { Count, None, Price, State } from '../ui/figure.tsx'
import { Empty, Unread } from '../ui/notice.tsx'
import { List } from '../ui/resource.tsx'
import { Choice, type Column } from '../ui/table.tsx'
import { useUpstreams } from '../upstreams/data.ts'
import { useModels } from './data.ts'
import { ModelDrawer } from './drawer.tsx'
import {
  ABILITY_OPTIONS,
  filterModels,
  type Rung,
  toAbilityWord,
  toFeatures,
  toLadder,
  toModelState,
  toRouteHealth,
} from './words.ts'

export function ModelsPage() {
  const { data: models, problem, reload } = useModels()
  const open = named('model')
  return (
    <Page
      title="Models"
      actions={
        <>
          {may('editor') && (
            <ButtonLink kind="main" icon="plus" href={toHref('/models/new')} data-new>
              New model
            </ButtonLink>
          )}
          <ButtonLink href={toHref('/models/catalog')}>Catalog</ButtonLink>
        </>
      }
    >
      <Unread of={models} problem={problem} retry={reload} />
      {models !== null && (models.length === 0 ? <NoModels /> : <Models models={models} />)}
      {open !== null && <ModelDrawer key={open} slug={open} onClose={() => setQuery({ model: null, edit: null })} />}
    </Page>
  )
}

const EXAMPLE = `models:
  openai/*: { routes: [{ upstream: openai, model: "*" }] }`

const NoModels = () => (
  <Empty title="No models yet">
    <p>
      A model has an ID that clients use, a price, and routes to upstreams, tried in order. Facts and prices of public
      models are built in.
    </p>
    {may('owner') && (
      <ButtonLink kind="main" icon="plus" href={toHref('/upstreams/new')}>
        Add provider
      </ButtonLink>
    )}
    <p class="dim">
      Or add models in <code>catalog.yaml</code> in the data folder or on the{' '}
      <a href={toHref('/models/catalog')}>catalog page</a>:
    </p>
    <Code label="Catalog with models" text={EXAMPLE} />
  </Empty>
)

const STATES = [
  ['', 'All statuses'],
  ['ready', 'Ready'],
  ['not_ready', 'Not ready'],
  ['disabled', 'Disabled'],
] as const

function Models({ models }: { models: readonly ShownModel[] }) {
  const read = (name: string) => query.value.get(name) ?? ''
  const filter = { search: read('search'), state: read('state'), upstream: read('upstream'), feature: read('feature') }
  const shown = filterModels(models, filter)
  const upstreams = [...new Set(models.flatMap(({ routes }) => routes.map(({ upstream }) => upstream)))].sort()
  return (
    <List
      what="models"
      columns={COLUMNS}
      rows={shown}
      all={models.length}
      idOf={({ slug }) => slug}
      filters={
        <>
          <Choice name="state" label="Status" value={filter.state} options={STATES} />
          {upstreams.length > 1 && (
            <Choice
              name="upstream"
              label="Upstream"
              value={filter.upstream}
              options={[['', 'All upstreams'], ...upstreams.map((one) => [one, one] as const)]}
            />
          )}
          <Choice
            name="feature"
            label="Capabilities"
            value={filter.feature}
            options={[['', 'All capabilities'], ...ABILITY_OPTIONS]}
          />
        </>
      }
      none={['No matching models.', '/models', 'Show all models']}
      foot=". Prices are per million tokens unless they name a unit."
    />
  )
}

const COLUMNS: readonly Column<ShownModel>[] = [
  {
    name: 'name',
    title: 'Model',
    sortBy: ({ slug }) => slug,
    cell: ({ slug, name, listed }) => (
      <>
        <a class="row-link" href={toHrefWith({ model: slug })}>
          {slug}
        </a>
        <span class="under">
          {name}
          {!listed && ', not listed'}
        </span>
      </>
    ),
  },
  {
    name: 'state',
    title: 'Status',
    sortBy: (model) => toModelState(model).word,
    cell: (model) => {
      const { kind, word } = toModelState(model)
      return (
        <div class="state-cell">
          <State kind={kind}>{word}</State>
          {(model.enabled || model.pricing.length === 0) && model.reason && <span class="under">{model.reason}</span>}
        </div>
      )
    },
  },
  { name: 'routes', title: 'Routes', isOnPhone: false, cell: (model) => <RoutesCell of={model} /> },
  {
    name: 'in',
    title: 'Input',
    isFigure: true,
    sortBy: ({ pricing }) => Number(pricing[0]?.prompt ?? 0),
    cell: ({ pricing, output_modalities: made }) => <Price of={pricing} made={made} side="prompt" />,
  },
  {
    name: 'out',
    title: 'Output',
    isFigure: true,
    sortBy: ({ pricing }) => Number(pricing[0]?.completion ?? 0),
    cell: ({ pricing, output_modalities: made }) => <Price of={pricing} made={made} side="completion" />,
  },
  {
    name: 'context',
    title: 'Context',
    isFigure: true,
    isOnPhone: false,
    sortBy: ({ context_length }) => context_length,
    cell: ({ context_length }) => <Count count={context_length} />,
  },
  {
    name: 'features',
    title: 'Capabilities',
    isOnPhone: false,
    cell: (model) => <span class="words">{toFeatures(model).join(', ') || <None />}</span>,
  },
]

function RoutesCell({ of: model }: { of: ShownModel }) {
  const upstreams = useUpstreams().data ?? []
  return <Rungs of={model} upstreams={upstreams} />
}

type Of = Pick<ShownModel, 'slug' | 'routes'>

const upstreamOf = (upstreams: readonly ShownUpstream[], { upstream }: Rung) =>
  upstreams.find(({ id }) => id === upstream)

const RUNGS_SHOWN = 3

function Rungs({ of: model, upstreams }: { of: Of; upstreams: readonly ShownUpstream[] }) {
  const rungs = toLadder(model.routes)
  return (
    <ol class="rungs">
      {rungs.slice(0, RUNGS_SHOWN).map((rung) => {
        const { kind, word } = toRouteHealth(model.slug, rung, upstreamOf(upstreams, rung))
        return (
          <li key={`${rung.upstream} ${rung.upstream_model}`} title={word}>
            <State kind={kind}>{rung.upstream}</State>
            <span class={kind === 'good' ? 'unseen' : 'dim'}>: {word}</span>
          </li>
        )
      })}
      {rungs.length > RUNGS_SHOWN && <li class="dim">+{rungs.length - RUNGS_SHOWN}</li>}
    </ol>
  )
}

const PLACES = { only: 'Only', first: 'First', next: 'Then', last: 'Last', off: 'Off' } as const

interface LadderProps {
  of: ShownModel
  upstreams: readonly ShownUpstream[]
  /** Null for viewers. */
  actions: ((route: Rung) => ComponentChildren) | null
}

export const Ladder = ({ of: model, upstreams, actions }: LadderProps) => (
  <ol class="ladder">
    {toLadder(model.routes).map((rung) => {
      const { kind, word, reason } = toRouteHealth(model.slug, rung, upstreamOf(upstreams, rung))
      const differences = toDifferences(model, rung)
      const figures = rung.served === null ? '' : toFigureText(rung.served)
      return (
        <li key={`${rung.upstream} ${rung.upstream_model}`}>
          <span class="place">
            {PLACES[rung.place]}
            {rung.share > 0 && rung.share < 1 && <span class="dim">{toPercent(rung.share)}</span>}
          </span>
          <div class="rung">
            <p>
              <a href={toHref(`/upstreams?upstream=${encodeURIComponent(rung.upstream)}`)}>{rung.upstream}</a>{' '}
              <code>{rung.upstream_model}</code>
            </p>
            <p>
              <State kind={kind}>{word}</State>
            </p>
            {reason && <p class="reason">{reason}</p>}
            {figures !== '' && <p class="hint">Server: {figures}</p>}
            {differences !== '' && <p class="hint">{differences}</p>}
            {actions?.(rung)}
          </div>
        </li>
      )
    })}
  </ol>
)

/** How a route differs from its model. */
function toDifferences(model: ShownModel, rung: Rung): string {
  const missing = model.supported_features.filter((feature) => !rung.supported_features.includes(feature))
  return [
    ...(rung.own_price ? [`custom price: ${toPrices(rung.pricing)}`] : []),
    ...(rung.context_length === model.context_length ? [] : [`context ${toExactCount(rung.context_length)}`]),
    ...(rung.max_output_length === model.max_output_length
      ? []
      : [`max output ${toExactCount(rung.max_output_length)} tokens`]),
    ...(missing.length === 0 ? [] : [`without ${missing.map(toAbilityWord).join(', ')}`]),
  ].join('; ')
}

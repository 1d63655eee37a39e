/** The models that a member's team may use, with what they cost. */
import { toHref } from '../address/address.ts'
import { api, ask } from '../api/client.ts'
import { useLoaded } from '../api/loaded.ts'
import { toPrices } from '../figures/prices.ts'
import { hasWords } from '../figures/search.ts'
import { Page } from '../shell/page.tsx'
import { Copyable } from '../ui/copy.tsx'
import { Count, State } from '../ui/figure.tsx'
import { ListFoot, SearchFilter, searched } from '../ui/filters.tsx'
import { Empty } from '../ui/notice.tsx'
import { type Column, Table } from '../ui/table.tsx'
import { Unread } from '../ui/unread.tsx'

const FRESH_MS = 15_000

const useModels = () =>
  useLoaded('own/models', async () => (await ask(api.own.models.get())).models, { everyMs: FRESH_MS })

type Model = NonNullable<ReturnType<typeof useModels>['data']>[number]

const COLUMNS: readonly Column<Model>[] = [
  { name: 'model', title: 'Model', sortBy: ({ id }) => id, cell: ({ id }) => <Copyable text={id} /> },
  {
    name: 'state',
    title: 'State',
    sortBy: ({ is_ready }) => (is_ready ? 'ready' : 'unready'),
    cell: ({ is_ready }) => (is_ready ? <State kind="good">ready</State> : <State kind="bad">not ready</State>),
  },
  { name: 'price', title: 'Price', cell: ({ pricing }) => toPrices(pricing) },
  {
    name: 'context',
    title: 'Context',
    isFigure: true,
    sortBy: ({ context_length }) => context_length,
    cell: ({ context_length }) => <Count count={context_length} />,
  },
  {
    name: 'try',
    title: 'Playground',
    cell: ({ id }) => (
      <a href={toHref(`/playground?model=${encodeURIComponent(id)}`)}>
        Try it<span class="unseen">: {id}</span>
      </a>
    ),
  },
  { name: 'takes', title: 'Takes', isOnPhone: false, cell: ({ input_modalities }) => input_modalities.join(', ') },
]

export function OwnModelsPage() {
  const { data: models, problem, reload } = useModels()
  return (
    <Page title="Models">
      <Unread of={models} problem={problem} retry={reload} />
      {models !== null && (models.length === 0 ? <NoModels /> : <List models={models} />)}
    </Page>
  )
}

const NoModels = () => (
  <Empty title="No models for your team">
    <p>What your team may use is listed here, with its prices. An owner or an editor says what that is.</p>
  </Empty>
)

function List({ models }: { models: readonly Model[] }) {
  const shown = models.filter(({ id, name }) => hasWords([id, name], searched()))
  return (
    <>
      <search class="filters">
        <SearchFilter what="models" />
      </search>
      {shown.length > 0 ? (
        <Table caption="Models" columns={COLUMNS} rows={shown} idOf={({ id }) => id} />
      ) : (
        <p class="dim">
          No model has that in its name. <a href={toHref('/models')}>Show all</a>
        </p>
      )}
      <ListFoot shown={shown.length} all={models.length} />
    </>
  )
}

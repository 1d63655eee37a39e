/** The catalogue as a whole: what it was, back to that, out as a file, and in again. */
import { useEffect, useId, useState } from 'preact/hooks'
import { query, setQuery, toHref, toHrefWith } from '../address/address.ts'
import { api, ask, ifMatch } from '../api/client.ts'
import { reloadAll, useLoaded } from '../api/loaded.ts'
import { may } from '../api/session.ts'
import { Page } from '../shell/page.tsx'
import { Button, Code } from '../ui/controls.tsx'
import { When } from '../ui/figure.tsx'
import { type FormState, TextField } from '../ui/form.tsx'
import { Empty, FactsRoom, Overlay, Problem, tell, Unread } from '../ui/notice.tsx'
import { YesNoField } from '../ui/resource.tsx'
import { type Column, Table } from '../ui/table.tsx'
import { Plan, type Planned, PlannedForm } from './plan.tsx'
import { toCountsText, toVersionText } from './words.ts'

export function CatalogPage() {
  const { data: versions, problem, reload } = useVersions()
  const [open, setOpen] = useState<'export' | 'apply' | null>(null)
  const close = () => setOpen(null)
  const shown = Number(query.value.get('version'))
  const actions = (
    <>
      <Button onClick={() => setOpen('export')}>Export</Button>
      {may('editor') && <Button onClick={() => setOpen('apply')}>Apply a file</Button>}
    </>
  )
  return (
    <Page title="Catalogue" above={<a href={toHref('/models')}>Models</a>} actions={actions}>
      <Unread of={versions} problem={problem} retry={reload} />
      {versions !== null &&
        (versions.length === 0 ? (
          <NoVersions />
        ) : (
          <>
            <Table
              caption="Versions of the catalogue"
              columns={COLUMNS}
              rows={versions}
              idOf={({ number }) => String(number)}
            />
            <p class="list-foot">
              Upstreams, models, routes and aliases, as they were after each change. The newest hundred versions are
              kept.
            </p>
          </>
        ))}
      {open === 'export' && <ExportDrawer onClose={close} />}
      {open === 'apply' && <ApplyDrawer onClose={close} />}
      {shown > 0 && (
        <VersionDrawer
          key={shown}
          number={shown}
          isNewest={versions?.[0]?.number === shown}
          onClose={() => setQuery({ version: null })}
        />
      )}
    </Page>
  )
}

const NoVersions = () => (
  <Empty title="No version yet">
    <p>Each change of the catalogue is kept here, with what it changed, and any can be brought back.</p>
    <p class="dim">A file is applied here, or on the command line:</p>
    <Code label="Command that applies a catalogue" text="tollgate catalog apply catalog.yaml" />
  </Empty>
)

type Version = NonNullable<ReturnType<typeof useVersions>['data']>[number]

const COLUMNS: readonly Column<Version>[] = [
  {
    name: 'why',
    title: 'Version',
    cell: (version) => (
      <a class="row-link" href={toHrefWith({ version: String(version.number) })}>
        {version.number} · {toVersionText(version)}
      </a>
    ),
  },
  { name: 'changed', title: 'Changed', cell: toCountsText },
  { name: 'when', title: 'When', isFigure: true, cell: ({ at_ms }) => <When ms={at_ms} /> },
]

function VersionDrawer({ number, isNewest, onClose }: { number: number; isNewest: boolean; onClose(): void }) {
  const { data: version, problem, reload } = useVersion(number)
  const [isReverting, setReverting] = useState(false)
  return (
    <Overlay kind="drawer" title={`Version ${number}`} onClose={onClose}>
      <Unread of={version} problem={problem} retry={reload}>
        <FactsRoom />
      </Unread>
      {version !== null && (
        <>
          <p>
            {toVersionText(version)}, <When ms={version.at_ms} />
          </p>
          {isReverting ? (
            <Revert
              number={number}
              onDone={() => {
                tell(`The catalogue is what it was in version ${number}.`)
                onClose()
              }}
              onCancel={() => setReverting(false)}
            />
          ) : (
            <>
              {version.changes === null ? (
                <p class="dim">What it changed is not known any more: the version before it is not kept.</p>
              ) : (
                <Plan of={{ ...version, changes: version.changes }} />
              )}
              {may('editor') && !isNewest && (
                <div class="form-foot">
                  <Button onClick={() => setReverting(true)}>Go back to it</Button>
                </div>
              )}
            </>
          )}
        </>
      )}
    </Overlay>
  )
}

const Revert = ({ number, onDone, onCancel }: { number: number; onDone(): void; onCancel(): void }) => (
  <PlannedForm
    initial={{}}
    send={(_, isPlan, planned) => revert(number, isPlan, planned?.revision)}
    fields={() => (
      <p>
        Upstreams, models, routes and aliases become what they were then. That makes a new version; what there is now
        stays one, too.
      </p>
    )}
    apply={`Go back to version ${number}`}
    onDone={onDone}
    onCancel={onCancel}
  />
)

const NEW = { yaml: '', prune: 'no', discard_edits: 'no' }
type Values = typeof NEW

const ApplyDrawer = ({ onClose }: { onClose(): void }) => (
  <Overlay kind="drawer" title="Apply a file" onClose={onClose}>
    <PlannedForm
      initial={NEW}
      send={send}
      fields={(form) => <Fields form={form} />}
      apply="Apply it"
      onDone={() => {
        tell('The catalogue is applied.')
        onClose()
      }}
    />
  </Overlay>
)

async function send({ yaml, prune, discard_edits }: Values, _isPlan: boolean, planned: Planned | null) {
  const wishes = { prune: prune === 'yes', discard_edits: discard_edits === 'yes' }
  if (planned === null) return planYaml(yaml, wishes)
  await applyYaml(yaml, wishes, planned.revision)
  return planned
}

function Fields({ form }: { form: FormState<Values> }) {
  const id = useId()
  return (
    <>
      <div class="field">
        <label for={id}>A file of this computer</label>
        <input
          id={id}
          type="file"
          accept=".yaml,.yml,.json"
          onChange={async ({ currentTarget: { files } }) => {
            const text = await files?.[0]?.text()
            if (text !== undefined) form.set({ yaml: text })
          }}
        />
      </div>
      <TextField
        of={form}
        name="yaml"
        label="Or what stands in it"
        hint="YAML or JSON, as the export writes it. Upstreams in it are for owners alone."
        isCode
        lines={12}
      />
      <YesNoField
        of={form}
        name="prune"
        label="What it does not name any more"
        no="Stays"
        yes="Is removed, where it was from a file"
        isNoFirst
      />
      <YesNoField
        of={form}
        name="discard_edits"
        label="What was set by hand"
        no="Stays"
        yes="Becomes what the file says"
        isNoFirst
      />
    </>
  )
}

function ExportDrawer({ onClose }: { onClose(): void }) {
  const { data, problem, reload } = useLoaded('catalog/export', readCatalog)
  const yaml = data?.yaml ?? null
  return (
    <Overlay kind="drawer" title="Export" onClose={onClose}>
      {problem && <Problem of={problem} retry={reload} />}
      {data !== null && yaml !== null && (
        <>
          <p>
            All that the catalogue says. References to credentials are in it, credentials never are
            {data.sealed.length > 0 &&
              `: those of ${data.sealed.join(', ')} were typed in, and are to be typed in again elsewhere`}
            .
          </p>
          <Download text={yaml} />
          <Code label="The catalogue" text={yaml} />
        </>
      )}
    </Overlay>
  )
}

function Download({ text }: { text: string }) {
  const [href, setHref] = useState('')
  useEffect(() => {
    const made = URL.createObjectURL(new Blob([text], { type: 'application/yaml' }))
    setHref(made)
    return () => URL.revokeObjectURL(made)
  }, [text])
  return (
    <p>
      <a class="button main" href={href} download="catalog.yaml">
        Download catalog.yaml
      </a>
    </p>
  )
}

const useVersions = () =>
  useLoaded('catalog/history', async () => (await ask(api.catalog.history.get())).versions.toReversed(), {
    everyMs: 30_000,
  })

const useVersion = (number: number) =>
  useLoaded(`catalog/history/${number}`, () => ask(api.catalog.history({ number }).get()))

/** The catalogue as a file has it. No credential is in it. */
export const readCatalog = () => ask(api.catalog.get())

/** Reads again what a change of the catalogue may have changed. */
export const reloadCatalog = () => Promise.all(['catalog', 'models', 'upstreams'].map(reloadAll))

/** @param revision of the catalogue that it was planned for. */
export async function revert(number: number, isPlan: boolean, revision: string | undefined) {
  const done = await ask(api.catalog.revert.post({ number, plan: isPlan }, ifMatch(revision)))
  if (!isPlan) await reloadCatalog()
  return done
}

export interface Wishes {
  prune: boolean
  discard_edits: boolean
}

const planYaml = (yaml: string, wishes: Wishes) => ask(api.catalog.plan.post({ yaml, ...wishes }))

/** @param revision of the catalogue that it was planned for. */
async function applyYaml(yaml: string, wishes: Wishes, revision: string | undefined) {
  const summary = await ask(api.catalog.apply.post({ yaml, ...wishes }, ifMatch(revision)))
  await reloadCatalog()
  return summary
}

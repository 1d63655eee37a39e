/** The catalog as a whole: versions, rollback, export, and applying a file. */
import { useEffect, useId, useState } from 'preact/hooks'
import { toEntryName } from '../../domain/changes.ts'
import { query, setQuery, toHref, toHrefWith } from '../address/address.ts'
import { useLoaded } from '../api/loaded.ts'
import { may } from '../api/session.ts'
import { toActor } from '../audit/words.ts'
import { Page } from '../shell/page.tsx'
import { Button, Code } from '../ui/controls.tsx'
import { When } from '../ui/figure.tsx'
import { type FormState, SelectField, SwitchField, TextField } from '../ui/form.tsx'
import { Empty, FactsRoom, Overlay, Problem, tell, Unread } from '../ui/notice.tsx'
import { type Column, Table } from '../ui/table.tsx'
import { applyYaml, planYaml, readCatalog, revert, undo, useUndo, useVersion, useVersions } from './data.ts'
import { Plan, type Planned, PlannedForm } from './plan.tsx'
import { foldNames, toCountsText, toVersionText } from './words.ts'

export function CatalogPage() {
  const { data: versions, problem, reload } = useVersions()
  const [open, setOpen] = useState<'export' | 'apply' | null>(null)
  const close = () => setOpen(null)
  const shown = Number(query.value.get('version'))
  const actions = (
    <>
      <Button onClick={() => setOpen('export')}>Export</Button>
      {may('editor') && <Button onClick={() => setOpen('apply')}>Apply file</Button>}
    </>
  )
  return (
    <Page title="Catalog" above={<a href={toHref('/models')}>Models</a>} actions={actions}>
      <Unread of={versions} problem={problem} retry={reload} />
      {versions !== null &&
        (versions.length === 0 ? (
          <NoVersions />
        ) : (
          <>
            <Table caption="Catalog versions" columns={COLUMNS} rows={versions} idOf={({ number }) => String(number)} />
            <p class="list-foot">
              Upstreams, models, routes, and aliases after each change. The newest 100 versions are kept.
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
  <Empty title="No versions yet">
    <p>Each change of the catalog becomes a version, and you can go back to any of them.</p>
    <p class="dim">Apply a file here, or from the command line:</p>
    <Code label="Command that applies a catalog" text="tollgate catalog apply catalog.yaml" />
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
  { name: 'changed', title: 'Changes', cell: toCountsText },
  { name: 'who', title: 'By', cell: toActor },
  { name: 'when', title: 'When', isFigure: true, cell: ({ at_ms }) => <When ms={at_ms} /> },
]

function VersionDrawer({ number, isNewest, onClose }: { number: number; isNewest: boolean; onClose(): void }) {
  const { data: version, problem, reload } = useVersion(number)
  const [doing, setDoing] = useState<'undo' | 'restore' | null>(null)
  return (
    <Overlay kind="drawer" title={`Version ${number}`} onClose={onClose}>
      <Unread of={version} problem={problem} retry={reload}>
        <FactsRoom />
      </Unread>
      {version !== null && (
        <>
          <p>
            {toVersionText(version)} by {toActor(version)}, <When ms={version.at_ms} />
          </p>
          {doing !== null ? (
            <Back
              number={number}
              {...WAYS[doing](number)}
              onDone={() => {
                tell(doing === 'undo' ? `Undid version ${number}.` : `Restored version ${number}.`)
                onClose()
              }}
              onCancel={() => setDoing(null)}
            />
          ) : (
            <>
              {version.changes === null ? (
                <p class="dim">Changes unknown: the previous version is no longer kept.</p>
              ) : (
                <Plan of={{ ...version, changes: version.changes }} />
              )}
              {may('editor') && (
                <div class="form-foot">
                  {version.changes !== null && <Undo number={number} onClick={() => setDoing('undo')} />}
                  {!isNewest && <Button onClick={() => setDoing('restore')}>Restore version</Button>}
                </div>
              )}
            </>
          )}
        </>
      )}
    </Overlay>
  )
}

/** Shows the reason if a version can't be undone. */
function Undo({ number, onClick }: { number: number; onClick(): void }) {
  const { data, problem } = useUndo(number)
  const reason = problem?.message ?? (data?.changes.length === 0 ? 'Nothing of this version is in effect.' : null)
  if (reason !== null) return <p class="hint">{reason}</p>
  return (
    <Button disabled={data === null} onClick={onClick}>
      Undo this change
    </Button>
  )
}

/** Both create a new version. */
const WAYS = {
  undo: (number: number) => ({
    send: undo,
    apply: `Undo version ${number}`,
    says: 'Undoes only this change and keeps later ones. This creates a new version. Requests stay charged at the price they had.',
  }),
  restore: (number: number) => ({
    send: revert,
    apply: `Restore version ${number}`,
    says: 'Restores upstreams, models, routes, and aliases, and undoes all later changes. This creates a new version; the current one is kept. Requests stay charged at the price they had.',
  }),
}

interface BackProps {
  number: number
  send(number: number, isPlan: boolean, revision: string | undefined): Promise<Planned>
  says: string
  apply: string
  onDone(): void
  onCancel(): void
}

const Back = ({ number, send, says, apply, onDone, onCancel }: BackProps) => (
  <PlannedForm
    initial={{}}
    send={(_, isPlan, planned) => send(number, isPlan, planned?.revision)}
    fields={() => <p>{says}</p>}
    {...{ apply, onDone, onCancel }}
  />
)

const NEW = { yaml: '', prune: 'no', discard_edits: 'no' }
type Values = typeof NEW

const ApplyDrawer = ({ onClose }: { onClose(): void }) => (
  <Overlay kind="drawer" title="Apply file" onClose={onClose}>
    <PlannedForm
      initial={NEW}
      send={send}
      fields={(form) => <Fields form={form} />}
      apply="Apply"
      onDone={() => {
        tell('Catalog applied.')
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
  const missing = useMissing(form.values.value.yaml)
  return (
    <>
      <div class="field">
        <label for={id}>File</label>
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
        label="Or paste its content"
        hint="YAML or JSON, as exported. Only owners can apply upstreams."
        isCode
        lines={12}
      />
      <SelectField
        of={form}
        name="prune"
        label="Entries not in this file"
        options={[
          ['no', 'keep (default)'],
          ['yes', missing === null ? 'remove' : `remove (${missing.length} would go)`],
        ]}
        hint={toMissingText(missing)}
      />
      <SwitchField
        of={form}
        name="discard_edits"
        label="Discard manual changes"
        hint="The file's values replace them."
      />
    </>
  )
}

const PAUSE_MS = 400

/** Entries that the file lacks; null before it was read. */
function useMissing(yaml: string): readonly string[] | null {
  const [missing, setMissing] = useState<readonly string[] | null>(null)
  useEffect(() => {
    setMissing(null)
    if (yaml.trim() === '') return
    let isCurrent = true
    const timer = setTimeout(() => {
      planYaml(yaml, { prune: false, discard_edits: false })
        .then(({ kept }) => isCurrent && setMissing(foldNames(kept)))
        // The preview shows what is wrong with the file.
        .catch(() => {})
    }, PAUSE_MS)
    return () => {
      isCurrent = false
      clearTimeout(timer)
    }
  }, [yaml])
  return missing
}

const MISSING_NAMED = 5

function toMissingText(missing: readonly string[] | null): string {
  if (missing === null) return 'Those from earlier files, and built-in ones. Manual changes always stay.'
  if (missing.length === 0) return 'None: the file has them all.'
  const more = missing.length - MISSING_NAMED
  return `${missing.slice(0, MISSING_NAMED).map(toEntryName).join(', ')}${more > 0 ? `, and ${more} more` : ''}`
}

function ExportDrawer({ onClose }: { onClose(): void }) {
  const { data, problem, reload } = useLoaded('catalog/export', readCatalog)
  const yaml = data?.yaml ?? null
  const stored = data?.sealed ?? []
  return (
    <Overlay kind="drawer" title="Export" onClose={onClose}>
      {problem && <Problem of={problem} retry={reload} />}
      {yaml !== null && (
        <>
          <p>
            The whole catalog, with references to credentials but never the credentials themselves.
            {stored.length > 0 && ` The stored credentials of ${stored.join(', ')} must be entered again elsewhere.`}
          </p>
          <Download text={yaml} />
          <Code label="Catalog" text={yaml} />
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

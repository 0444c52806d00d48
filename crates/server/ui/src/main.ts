import { mount } from "svelte";

import App from "./App.svelte";
import "./theme.css";

const target = document.getElementById("app");
if (!target) throw new Error("index.html has no element #app");
// The header in index.html stood in until now.
target.replaceChildren();
mount(App, { target });
